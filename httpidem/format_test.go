package httpidem_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestFormats freezes version 1 of the stored formats: a change needs a new version, not an edit
// here.
func TestFormats(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{MaxAnswer: 100}})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
		h.Set("Content-Type", "text/plain")
		h["X-Many"] = []string{"b", " a\r\nb "}
		h.Set("Set-Cookie", "a=b")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, strings.Repeat("body", 1+100*len(r.URL.RawQuery)))
	}))
	var got bytes.Buffer
	for _, path := range []string{"/a%2Fb", "/a%2Fb?x"} {
		r := httptest.NewRequest("POST", path, strings.NewReader(`{"cents":100}`))
		r.Header.Set("Idempotency-Key", `"k"`)
		r.Header.Set("Content-Type", "Application/JSON; charset=utf-8")
		h.ServeHTTP(httptest.NewRecorder(), r)
		rec, err := e.Layer("http").Lookup(t.Context(), retrysafe.Key{Tenant: "global", Operation: "POST /a%2Fb", ID: "k"})
		assert.NoError(t, err, "look-up")
		fmt.Fprintf(&got, "fingerprint %x\n%s kept %v size %d digest %x\n%s\n----\n",
			rec.Fingerprint, rec.Answer.Codec, rec.Answer.Kept, rec.Answer.Size, rec.Answer.Digest[:4], rec.Answer.Body)
		e = retrysafe.New(memstore.New(nil), nil)
		m = httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{MaxAnswer: 100}})
		h = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = fmt.Fprint(w, strings.Repeat("body", 100))
		}))
	}
	assert.Golden(t, "testdata/formats_v1.golden", got.String())
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`abc`, `"abc"`, `"a\"b";p=1`, `"a, b"`, `a,b`, ``, `"`, `"abc`, `"a";b=:YQ==:;c=?1;d=-1.5;e=*x/y`, strings.Repeat("x", 256), "\x00", `"a" ;b`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		key, err := httpidem.ParseKey([]string{v})
		if err != nil {
			if key != "" || len(v) > 8 && strings.Contains(err.Error(), v) {
				t.Fatalf("%q: a refused value is given back or shown: %q, %v", v, key, err)
			}
			return
		}
		if len(key) == 0 || len(key) > 255 {
			t.Fatalf("%q: key of %d octets", v, len(key))
		}
		for i := range len(key) {
			if key[i] < 0x20 || key[i] > 0x7E {
				t.Fatalf("%q: key has the octet %#x", v, key[i])
			}
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := httpidem.ParseKey([]string{quoted}); err != nil || again != key {
			t.Fatalf("%q is the key %q, and quoted %q, %v", v, key, again, err)
		}
	})
}

// FuzzAnswer checks that a duplicate gets the same answer, whatever a handler answers, and that
// nothing breaks, whatever is in a store.
func FuzzAnswer(f *testing.F) {
	f.Add(201, "X-A", "v", []byte("body"), []byte("HTTP/1.1 201 Created\r\nX-A: v\r\n\r\nbody"))
	f.Add(204, "X-A", "\r\n", []byte(nil), []byte("HTTP/1.1 204 No Content\r\n\r\n"))
	f.Add(409, "Retry-After", "1", []byte("conflict"), []byte(nil))
	f.Add(428, "X-A", "v", []byte(nil), []byte(nil))
	f.Add(999, "bad name", "é\x00", []byte("\r\n\r\n"), []byte("HTTP/1.1 20"))
	f.Fuzz(func(t *testing.T, status int, name, value string, body, stored []byte) {
		if status < 200 || status > 999 || httpidem.NotRun(status) || status == 307 || status == 308 {
			status = 200 // these may release the key, and then nothing is replayed
		}
		if http.CanonicalHeaderKey(name) == "Idempotency-Outcome" || http.CanonicalHeaderKey(name) == "Content-Length" {
			name = "X-A"
		}
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1})
		h := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, value)
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}))
		first, again := httptest.NewRecorder(), httptest.NewRecorder()
		h.ServeHTTP(first, keyed("x"))
		h.ServeHTTP(again, keyed("x"))
		if again.Code != first.Code || !bytes.Equal(again.Body.Bytes(), first.Body.Bytes()) || again.Header().Get("Idempotency-Replayed") != "true" {
			t.Fatalf("first %d %q, repeat %d %q", first.Code, first.Body, again.Code, again.Body)
		}
		// A damaged record.
		k := retrysafe.Key{Tenant: "global", Operation: "POST /orders", ID: "damaged"}
		a, _, err := e.Layer("http").Begin(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Complete(t.Context(), retrysafe.Answer{Codec: "message/http", Body: stored, Kept: true}); err != nil {
			t.Fatal(err)
		}
		r, w := keyed("x"), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", "damaged")
		h.ServeHTTP(w, r)
		if w.Code < 200 {
			t.Fatalf("a damaged answer gave %d", w.Code)
		}
		_ = e.Shutdown(t.Context())
	})
}
