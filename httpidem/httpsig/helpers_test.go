package httpsig_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// clock is a clock that tests set.
type clock struct{ t atomic.Int64 } // Unix nanoseconds

func newClock() *clock {
	c := new(clock)
	c.t.Store(time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.t.Load()) }
func (c *clock) forward(by time.Duration) { c.t.Add(int64(by)) }

func engineOn(tb testing.TB, s storeapi.Store) *retrysafe.Engine {
	tb.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	tb.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(gone)
	})
	return e
}

func must[V any](tb testing.TB) func(V, error) V {
	tb.Helper()
	return func(v V, err error) V {
		tb.Helper()
		assert.NoError(tb, err, "must")
		return v
	}
}

// secret returns n random bytes.
func secret(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// signingKeys returns one key of each algorithm.
func signingKeys(tb testing.TB) map[string]httpsig.Key {
	tb.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	assert.NoError(tb, err, "ed25519")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(tb, err, "ecdsa")
	return map[string]httpsig.Key{
		"hmac": must[httpsig.Key](tb)(httpsig.SharedKey(secret(32))),
		"ed":   must[httpsig.Key](tb)(httpsig.PrivateKey(ed)),
		"ec":   must[httpsig.Key](tb)(httpsig.PrivateKey(ec)),
	}
}

// world is a service that verifies, and its clients.
type world struct {
	t       testing.TB
	clock   *clock
	store   *memstore.Store
	keys    map[string]httpsig.Key // the keys that clients sign with, by id
	options httpsig.Options
	served  atomic.Int64
	why     atomic.Pointer[httpsig.Refusal] // of the last refusal
	last    atomic.Pointer[http.Request]
	body    atomic.Pointer[string]
}

func newWorld(tb testing.TB, change ...func(*httpsig.Options)) *world {
	tb.Helper()
	w := &world{t: tb, clock: newClock(), keys: signingKeys(tb)}
	w.store = memstore.New(&memstore.Options{Now: w.clock.now})
	ring := httpsig.Keyring{}
	for id, key := range w.keys {
		ring[id] = []httpsig.Key{key}
	}
	w.options = httpsig.Options{
		Keys: ring, Nonces: httpsig.NoncesOn(engineOn(tb, w.store)), Now: w.clock.now,
		OnRefused: func(_ *http.Request, r *httpsig.Refusal) { w.why.Store(r) },
	}
	for _, f := range change {
		f(&w.options)
	}
	return w
}

func (w *world) signer(id string) *httpsig.Signer {
	return &httpsig.Signer{KeyID: id, Key: w.keys[id], Now: w.clock.now}
}

// payment returns the request that tests sign: it moves money.
func payment(tb testing.TB) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), "POST", "http://bank.example/pay/alice?amount=100", strings.NewReader(`{"note":"rent"}`))
	assert.NoError(tb, err, "request")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "7c5a9f3b2d1e4860")
	return r
}

// sign returns the signed request as it is sent.
func (w *world) sign(r *http.Request, s *httpsig.Signer) string {
	w.t.Helper()
	assert.NoError(w.t, s.Sign(r), "sign")
	var b bytes.Buffer
	assert.NoError(w.t, r.Write(&b), "write")
	return b.String()
}

func (w *world) handler() http.Handler {
	return httpsig.New(&w.options).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.served.Add(1)
		w.last.Store(r)
		b, _ := io.ReadAll(r.Body)
		text := string(b)
		w.body.Store(&text)
	}))
}

// parse parses a request as a server does.
func parse(tb testing.TB, wire string) *http.Request {
	tb.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
	assert.NoError(tb, err, "the test's own request")
	return r.WithContext(tb.Context())
}

// send returns "200", or the status and the code of the refusal.
func (w *world) send(wire string) string {
	w.t.Helper()
	return w.serve(parse(w.t, wire))
}

func (w *world) serve(r *http.Request) string {
	w.t.Helper()
	before, rec := w.served.Load(), httptest.NewRecorder()
	w.handler().ServeHTTP(rec, r)
	resp := rec.Result()
	defer resp.Body.Close()
	ran := w.served.Load() - before
	if resp.StatusCode == http.StatusOK {
		assert.Equal(w.t, ran, int64(1), "runs of an accepted request")
		return "accepted"
	}
	assert.Equal(w.t, ran, int64(0), "runs of a refused request")
	p, ok := httpidem.ProblemFrom(resp)
	assert.True(w.t, ok, "a refusal is a problem document")
	assert.Equal(w.t, resp.Header.Get("Retry-After") != "", resp.StatusCode == http.StatusServiceUnavailable, "Retry-After of %s", p.Code)
	assert.Equal(w.t, resp.Header.Get("WWW-Authenticate") != "", resp.StatusCode == http.StatusUnauthorized, "challenge of %s", p.Code)
	return p.Code
}

// reason returns the text of the last refusal, for the log.
func (w *world) reason() string {
	if r := w.why.Load(); r != nil {
		return r.Error()
	}
	return ""
}

// keyID returns the id of the key that signed the request of ctx; empty if none did.
func keyID(ctx context.Context) string {
	caller, _ := httpsig.CallerFrom(ctx)
	return caller.KeyID
}
