package httpidem_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/memstore"
)

type nullWriter struct{ h http.Header }

func (n *nullWriter) Header() http.Header         { return n.h }
func (n *nullWriter) Write(p []byte) (int, error) { return len(p), nil }
func (n *nullWriter) WriteHeader(int)             {}

func TestSmoke(t *testing.T) {
	e := retrysafe.New(memstore.New(nil), nil)
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	n := 0
	s := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(201)
		w.Write(b)
	})))
	defer s.Close()
	for range 2 {
		req, _ := http.NewRequest("POST", s.URL, strings.NewReader("hello"))
		req.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		t.Log(resp.Status, resp.Header, string(b))
	}
	if n != 1 {
		t.Fatal(n)
	}
}

func bench(b *testing.B, h http.Handler, key func(int) string) {
	b.ReportAllocs()
	i := 0
	w := &nullWriter{http.Header{}}
	req, _ := http.NewRequest("POST", "http://x/orders", nil)
	body := strings.NewReader("hello")
	for b.Loop() {
		i++
		req.Header["Idempotency-Key"] = []string{key(i)}
		body.Reset("hello")
		req.Body = io.NopCloser(body)
		clear(w.h)
		h.ServeHTTP(w, req)
	}
}

func bare(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = ct
	w.WriteHeader(201)
	w.Write(hello)
}

var (
	ct    = []string{"text/plain"}
	hello = []byte("hello")
)

func BenchmarkBare(b *testing.B) { bench(b, http.HandlerFunc(bare), func(i int) string { return "k" }) }
func BenchmarkReplay(b *testing.B) {
	e := retrysafe.New(memstore.New(nil), nil)
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	bench(b, m.Handler(http.HandlerFunc(bare)), func(i int) string { return "k" })
}
func BenchmarkFirst(b *testing.B) {
	e := retrysafe.New(memstore.New(nil), nil)
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	bench(b, m.Handler(http.HandlerFunc(bare)), func(i int) string { return fmt.Sprint(i) })
}
