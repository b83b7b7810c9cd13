package bench_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var (
	jsonType = []string{"application/json"}
	location = []string{"/orders/1"}
)

// answerBare answers as a small service would.
func answerBare(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"], h["Location"] = jsonType, location
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer)
}

func guardedHandler(tb testing.TB) http.Handler {
	tb.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests")})
	tb.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	m := httpidem.New(e, &httpidem.Options{Tenant: func(*http.Request) (string, error) { return "ann", nil }})
	return m.Handler(http.HandlerFunc(answerBare))
}

// sink accepts an answer and discards it.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// callHandler returns a function that sends one request to h each time it is called. next returns
// the key; with an empty one, no key is sent.
func callHandler(h http.Handler, next func() string) func() {
	request, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://shop.example/orders", nil)
	request.Header.Set("Content-Type", "application/json")
	w, in, payload, key := &sink{http.Header{}}, new(body), []byte(`{"item":"tea","cents":4200}`), make([]string, 1)
	return func() {
		if key[0] = next(); key[0] != "" {
			request.Header["Idempotency-Key"] = key
		}
		in.Reset(payload)
		request.Body, request.ContentLength = in, int64(len(payload))
		clear(w.header)
		h.ServeHTTP(w, request)
	}
}

func nextText(n int) func() string {
	all, i := make([]string, n), -1
	for i := range all {
		all[i] = "key-" + strconv.Itoa(i)
	}
	return func() string { i++; return all[i] }
}

// TestMiddlewareAllocations checks the goals: 20 allocations more than the bare handler on a first
// run, and none for requests that are not guarded.
func TestMiddlewareAllocations(t *testing.T) {
	plain := testing.AllocsPerRun(1000, callHandler(http.HandlerFunc(answerBare), func() string { return "" }))
	first := testing.AllocsPerRun(1000, callHandler(guardedHandler(t), nextText(1001)))
	t.Logf("first run: %v allocations, bare handler %v", first, plain)
	if first-plain > 20 {
		t.Errorf("first run: %v allocations over the bare handler, at most 20", first-plain)
	}
	off := testing.AllocsPerRun(1000, callHandler(guardedHandler(t), func() string { return "" }))
	if off != plain {
		t.Errorf("not guarded: %v allocations, the bare handler %v", off, plain)
	}
}

func BenchmarkHandlerBare(b *testing.B) {
	call := callHandler(http.HandlerFunc(answerBare), func() string { return "" })
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

func BenchmarkHandlerNotGuarded(b *testing.B) {
	call := callHandler(guardedHandler(b), func() string { return "" })
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

func BenchmarkHandlerFirstRun(b *testing.B) {
	call := callHandler(guardedHandler(b), nextText(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		call()
	}
}

func BenchmarkHandlerReplay(b *testing.B) {
	call := callHandler(guardedHandler(b), func() string { return "key" })
	call()
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

// serverCPU sends b.N requests over 64 connections to a net/http server, all in this process, and
// reports the CPU time a request, client included. Compare two of them: the client's part is the
// same.
func serverCPU(b *testing.B, h http.Handler) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h} //nolint:gosec // loopback, for the length of a benchmark
	go func() { _ = server.Serve(l) }()
	defer server.Close()

	requests := [][]byte{wireRequest("Idempotency-Key", "key")}
	// no later request meets the first run
	if err := sendRequests(l.Addr().String(), requests, 1, ""); err != nil {
		b.Fatal(err)
	}
	per := b.N/conns + 1
	b.ResetTimer()
	before := cpuTime(b)
	var all sync.WaitGroup
	for range conns {
		all.Go(func() {
			if err := sendRequests(l.Addr().String(), requests, per, ""); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(per*conns)/1000, "cpu-µs/req")
}

var (
	length   = []string{strconv.Itoa(len(answer))}
	replayed = []string{"true"}
	date     = []string{"Thu, 01 Jan 2026 00:00:00 GMT"}
)

// answerReplayBytes answers the bytes of a replay and does nothing else.
func answerReplayBytes(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	h := w.Header()
	h["Content-Type"], h["Location"], h["Content-Length"], h["Idempotency-Replayed"], h["Date"] = jsonType, location, length, replayed, date
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer)
}

// BenchmarkServerEmpty is the baseline of BenchmarkServerReplay.
func BenchmarkServerEmpty(b *testing.B) { serverCPU(b, http.HandlerFunc(answerReplayBytes)) }

func BenchmarkServerReplay(b *testing.B) { serverCPU(b, guardedHandler(b)) }
