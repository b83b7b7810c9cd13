package httpidem_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestStatus tests that a client learns the outcome of its key, and only of its own.
func TestStatus(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1})
	o := &httpidem.Options{Policy: retrysafe.Policy{Lease: 30 * time.Second}}
	o.Tenant, o.Binding = httpidem.ByAuthorization(e)
	m := httpidem.New(e, o)
	status := m.Status()
	ask := func(target, key, user string) string {
		t.Helper()
		r := httptest.NewRequest("GET", target, nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		r.Header.Set("Authorization", user)
		w := httptest.NewRecorder()
		status.ServeHTTP(w, r)
		body := w.Body.String()
		if _, code, is := strings.Cut(body, `"code":"`); is {
			body, _, _ = strings.Cut(code, `"`)
		}
		return fmt.Sprint(w.Code, " ", strings.TrimSpace(body))
	}
	const orders = "/.retrysafe/status?method=POST&path=/orders"
	run := func(key string, h http.HandlerFunc) {
		t.Helper()
		r := keyed("x")
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Authorization", "Bearer ann")
		m.Handler(h).ServeHTTP(httptest.NewRecorder(), r)
	}
	run("done", func(w http.ResponseWriter, _ *http.Request) {
		assert.Equal(t, ask(orders, "done", "Bearer ann"), `200 {"state":"in-progress","attempt":1,"retry_after_s":5}`, "while it runs")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "the answer")
	})
	run("refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	run("large", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(make([]byte, 2<<20))
	})
	run("lost", func(_ http.ResponseWriter, r *http.Request) {
		a, _ := retrysafe.AttemptFrom(r.Context())
		_ = a.LeaveInDoubt(r.Context(), nil)
	})
	assert.Equal(t, ask(orders, "done", "Bearer ann"), `200 {"state":"completed","attempt":1,"http_status":201}`, "completed")
	assert.Equal(t, ask(orders+"?a=b", `"done"`, "Bearer ann"), `200 {"state":"completed","attempt":1,"http_status":201}`, "with a query, the key quoted")
	assert.Equal(t, ask(orders, "refused", "Bearer ann"), `200 {"state":"released","attempt":1}`, "released")
	assert.Equal(t, ask(orders, "large", "Bearer ann"), `200 {"state":"completed","attempt":1,"http_status":202}`, "not kept")
	assert.Equal(t, ask(orders, "lost", "Bearer ann"), `200 {"state":"in-doubt","attempt":1}`, "in doubt")
	assert.Equal(t, ask(orders, "never", "Bearer ann"), `404 {"state":"absent"}`, "absent")
	assert.Equal(t, ask(orders, "done", "Bearer bob"), `404 {"state":"absent"}`, "another caller's key")
	assert.Equal(t, ask("/?method=PATCH&path=/orders", "done", "Bearer ann"), `404 {"state":"absent"}`, "another method")
	assert.Equal(t, ask(orders, "", "Bearer ann"), "400 key-missing", "no key")
	assert.Equal(t, ask(orders, "a,b", "Bearer ann"), "400 key-malformed", "a bad key")
	for _, bad := range []string{"/", "/?method=POST", "/?path=/orders", "/?method=POST&path=orders", "/?method=POST&path=%zz", "/?method=POST&path=http://x/orders"} {
		assert.Equal(t, ask(bad, "done", "Bearer ann"), "400 query-malformed", "query %s", bad)
	}

	// The same user with another credential, as after a change of the password.
	basic := func(password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth("carl", password)
		return r.Header.Get("Authorization")
	}
	r := keyed("x")
	r.Header.Set("Idempotency-Key", "carl-1")
	r.Header.Set("Authorization", basic("old"))
	m.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, ask(orders, "carl-1", basic("old")), `200 {"state":"completed","attempt":1,"http_status":404}`, "the first credential")
	assert.Equal(t, ask(orders, "carl-1", basic("new")), "409 principal-changed", "another credential")

	down := storetest.NewFaulty(memstore.New(nil), func(string, int) storetest.Fault { return storetest.LoseRequest })
	status = httpidem.New(retrysafe.New(down, &retrysafe.Options{Sweep: -1}), &httpidem.Options{Tenant: httpidem.Global}).Status()
	assert.Equal(t, ask(orders, "done", ""), "503 store-unavailable", "the store is away")
}

// FuzzStatusQuery checks that nothing breaks, whatever is asked, and that nothing about other paths
// is disclosed.
func FuzzStatusQuery(f *testing.F) {
	f.Add("POST", "/orders")
	f.Add("", "http://x/%2f")
	m := httpidem.New(retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1}), &httpidem.Options{Tenant: httpidem.Global})
	status := m.Status()
	f.Fuzz(func(t *testing.T, method, path string) {
		r := httptest.NewRequest("GET", "/", nil)
		q := r.URL.Query()
		q.Set("method", method)
		q.Set("path", path)
		r.URL.RawQuery = q.Encode()
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		status.ServeHTTP(w, r)
		if w.Code != 404 && w.Code != 400 {
			t.Fatalf("%q %q: status %d", method, path, w.Code)
		}
	})
}
