package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestServiceBeforeAGuard tests a service that acts and then passes the request, with the fields of
// the gateway, to one that has the middleware: a refusal there says nothing of what was done
// before.
func TestServiceBeforeAGuard(t *testing.T) {
	t.Parallel()
	inner := httpidem.New(newEngine(t, memstore.New(nil), retrysafe.Policy{}), &httpidem.Options{Credentials: new(httpidem.Credentials)})
	last := httptest.NewServer(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })))
	t.Cleanup(last.Close)
	to, err := url.Parse(last.URL)
	assert.NoError(t, err, "address")
	var effects atomic.Int64
	pass := httputil.NewSingleHostReverseProxy(to)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	assert.Equal(t, told(t, last.URL, "POST", "k", "another"), "201", "a request past the gateway")
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}})
	for range 4 {
		assert.Equal(t, told(t, base, "POST", "k", "x"), "422 payload-mismatch", "a press")
	}
	assert.Equal(t, effects.Load(), int64(1), "effects")
}

// TestRedirectAfterTheEffect tests a service that acts and then sends its client to another page
// with a status that keeps the method.
func TestRedirectAfterTheEffect(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects.Add(1)
		w.Header().Set("Location", "/thanks")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}})
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/orders", http.NoBody)
		assert.NoError(t, err, "request")
		req.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		req.Header.Set("Authorization", "Bearer x")
		resp, err := http.DefaultTransport.RoundTrip(req)
		assert.NoError(t, err, "a press")
		_ = resp.Body.Close()
		assert.Equal(t, resp.StatusCode, http.StatusTemporaryRedirect, "status")
	}
	assert.Equal(t, effects.Load(), int64(1), "effects")
}

// TestServiceWithAGuard tests a service that has the middleware itself and gets requests past the
// gateway too, and whose handlers answer no 409: what the middleware refuses is not kept for the
// key, so the next try gets the answer.
func TestServiceWithAGuard(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	inner := httpidem.New(newEngine(t, memstore.New(nil), retrysafe.Policy{}), &httpidem.Options{Credentials: new(httpidem.Credentials)})
	up := httptest.NewServer(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-end
		w.WriteHeader(http.StatusCreated)
	})))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{up.URL}, Guard: httpidem.Options{Answer: httpidem.AnswerOptions{NotRun: []int{http.StatusConflict}}},
	})
	first := make(chan string)
	go func() { first <- told(t, up.URL, "POST", "k", "x") }()
	<-begun
	resp, body, err := send(t, base, "POST", "k", "x")
	assert.NoError(t, err, "request")
	assert.Contains(t, body, `"code":"in-progress"`, "while it runs")
	assert.Equal(t, resp.Header.Get("Idempotency-Outcome"), "", "what is between service and gateway stays there")
	close(end)
	assert.Equal(t, <-first, "201", "past the gateway")
	assert.Equal(t, told(t, base, "POST", "k", "x"), "201", "the next try")
	resp, _, err = send(t, up.URL, "POST", "k", "y")
	assert.NoError(t, err, "request")
	assert.Equal(t, resp.StatusCode, http.StatusUnprocessableEntity, "another payload, past the gateway")
	assert.Equal(t, resp.Header.Get("Idempotency-Outcome"), "", "a client without a gateway")
}
