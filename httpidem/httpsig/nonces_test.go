package httpsig_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestCopiesAtOnce tests that one of a hundred copies of one signed request, through four
// processes, is accepted.
func TestCopiesAtOnce(t *testing.T) {
	t.Parallel()
	w, served := newWorld(t), atomic.Int64{}
	wire := w.sign(payment(t), w.signer("hmac"))
	handlers := make([]http.Handler, 4)
	for i := range handlers {
		o := w.options
		o.Nonces = httpsig.NoncesOn(engineOn(t, w.store))
		handlers[i] = httpsig.New(&o).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	}
	requests := make([]*http.Request, 100)
	codes := make([]int, len(requests))
	for n := range requests {
		requests[n] = parse(t, wire)
	}
	var wg sync.WaitGroup
	for n, r := range requests {
		wg.Go(func() {
			rec := httptest.NewRecorder()
			handlers[n%len(handlers)].ServeHTTP(rec, r)
			codes[n] = rec.Code
		})
	}
	wg.Wait()
	count := map[int]int{}
	for _, code := range codes {
		count[code]++
	}
	assert.Equal(t, count, map[int]int{http.StatusOK: 1, http.StatusConflict: 99}, "answers")
	assert.Equal(t, served.Load(), int64(1), "runs")
}

// TestNonceOutlivesItsSignature tests that a nonce is known as long as any verifier, by its own
// clock, accepts the signature, and is then forgotten, so that the store does not grow for ever.
func TestNonceOutlivesItsSignature(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.signer("hmac")
	s.Life = time.Hour // MaxAge decides: 5 minutes
	wire := w.sign(payment(t), s)
	w.clock.forward(30 * time.Second) // this verifier's clock is ahead of the client's
	assert.Equal(t, w.send(wire), "accepted", "first")
	slow := newWorld(t) // whose clock is slow by as much
	slow.options = w.options
	slow.options.OnRefused = func(_ *http.Request, r *httpsig.Refusal) { slow.why.Store(r) }
	slow.options.Now = func() time.Time { return w.clock.now().Add(-time.Minute) }
	for slow.send(wire) != "signature-expired" {
		assert.Contains(t, slow.reason(), "used before", "until it has expired")
		w.clock.forward(time.Second)
	}
	assert.Equal(t, w.served.Load(), int64(1), "runs")
	w.clock.forward(2 * time.Minute)
	n, err := w.store.Sweep(t.Context(), 10)
	assert.True(t, err == nil && n == 1 && w.store.Len() == 0, "the nonce is forgotten: %d %v", n, err)
}

// TestSameNonce tests that a nonce belongs to a key id: with one key it can be used once, whatever
// the signature, and another key has its own nonces.
func TestSameNonce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fixed := func(id, path string) string {
		r := payment(t)
		r.URL.Path = path
		s := w.signer(id)
		httpsig.FixNonce(s, "the-same-nonce-as-before")
		return w.sign(r, s)
	}
	assert.Equal(t, w.send(fixed("hmac", "/a")), "accepted", "the first")
	assert.Equal(t, w.send(fixed("hmac", "/b")), "nonce-used", "another request, rightly signed")
	w.clock.forward(3 * time.Second)
	assert.Equal(t, w.send(fixed("hmac", "/a")), "nonce-used", "the same, signed later")
	assert.Equal(t, w.send(fixed("ed", "/a")), "accepted", "another key id")
}

// dripping is a body that arrives slowly.
type dripping struct {
	io.Reader
	wait func()
}

func (d *dripping) Read(p []byte) (int, error) { d.wait(); return d.Reader.Read(p) }

func (*dripping) Close() error { return nil }

// TestBodyThatDripsIn tests that a copy is refused that was begun in time, and whose body takes
// until the nonce is forgotten.
func TestBodyThatDripsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire := w.sign(payment(t), w.signer("hmac"))
	assert.Equal(t, w.send(wire), "accepted", "the first")
	w.clock.forward(time.Minute + 29*time.Second)
	r := parse(t, wire)
	r.Body = &dripping{r.Body, func() {
		w.clock.forward(time.Hour)
		_, _ = w.store.Sweep(t.Context(), 10)
	}}
	assert.Equal(t, w.serve(r), "signature-expired", "the copy")
	assert.Equal(t, w.store.Len(), 0, "the nonce was forgotten meanwhile")
}

// TestOrder tests that a caller without a key can cause neither the body to be read nor a call of
// the store.
func TestOrder(t *testing.T) {
	t.Parallel()
	asked := 0
	w := newWorld(t, func(o *httpsig.Options) {
		o.Nonces = noncesFunc(func(context.Context, string, string, time.Duration) error { asked++; return nil })
	})
	wire := w.sign(payment(t), w.signer("hmac"))
	forge := func(wire string) *http.Request {
		r := parse(t, wire)
		r.Body = &dripping{r.Body, func() { t.Error("the body was read") }}
		return r
	}
	assert.Equal(t, w.serve(forge(replace(t, wire, "alice", "mallory"))), "signature-refused", "forged")
	assert.Equal(t, w.serve(forge(without(t, wire, "Signature"))), "signature-missing", "not signed")
	assert.Equal(t, w.send(replace(t, wire, "rent", "gold")), "signature-refused", "another body")
	get, err := http.NewRequestWithContext(t.Context(), "GET", "http://bank.example/", http.NoBody)
	assert.NoError(t, err, "request")
	bodiless := w.sign(get, w.signer("hmac"))
	assert.Equal(t, w.serve(forge(with(t, bodiless, "Content-Length: 4")+"evil")), "signature-refused", "a body that nothing covers")
	w.options.MaxBody = 14
	assert.Equal(t, w.serve(forge(wire)), "body-too-large", "by what it says")
	w.options.MaxBody = 0
	w.clock.forward(time.Hour)
	assert.Equal(t, w.serve(forge(wire)), "signature-expired", "old")
	assert.Equal(t, asked, 0, "calls of the store")
}

// TestStoreAway tests that nothing runs if the store does not answer, and that the client is asked
// to retry, and retries with another signature.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	for _, f := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply} {
		away := atomic.Bool{}
		away.Store(true)
		w := newWorld(t)
		w.options.Nonces = httpsig.NoncesOn(engineOn(t, storetest.NewFaulty(w.store, func(string, int) storetest.Fault {
			if away.Load() {
				return f
			}
			return 0
		})))
		wire := w.sign(payment(t), w.signer("hmac"))
		assert.Equal(t, w.send(wire), "store-unavailable", "the store is away")
		assert.ErrorIs(t, w.why.Load(), retrysafe.ErrUnavailable, "the log")
		away.Store(false)
		want := map[storetest.Fault]string{storetest.LoseRequest: "accepted", storetest.LoseReply: "nonce-used"}[f]
		assert.Equal(t, w.send(wire), want, "the same signature")
		assert.Equal(t, w.send(w.sign(payment(t), w.signer("hmac"))), "accepted", "a new one")
	}
	w := newWorld(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e := engineOn(t, w.store)
	_ = e.Shutdown(gone)
	w.options.Nonces = httpsig.NoncesOn(e)
	assert.Equal(t, w.send(w.sign(payment(t), w.signer("hmac"))), "shutting-down", "the engine is closed")
	w.options.Nonces = httpsig.NoncesOn(engineOn(t, struct{ storeapi.Store }{w.store}))
	assert.Equal(t, w.send(w.sign(payment(t), w.signer("hmac"))), "store-unavailable", "a store that issues nothing")
	assert.ErrorIs(t, w.why.Load(), errors.ErrUnsupported, "the log")
}

// TestOneCallOfTheStore tests that a request costs one call.
func TestOneCallOfTheStore(t *testing.T) {
	t.Parallel()
	calls := []string{}
	w := newWorld(t)
	w.options.Nonces = httpsig.NoncesOn(engineOn(t, storetest.NewFaulty(w.store, func(op string, _ int) storetest.Fault {
		calls = append(calls, op)
		return 0
	})))
	assert.Equal(t, w.send(w.sign(payment(t), w.signer("ec"))), "accepted", "request")
	assert.Equal(t, strings.Join(calls, " "), "issue", "calls")
}

type noncesFunc func(ctx context.Context, keyid, nonce string, life time.Duration) error

func (f noncesFunc) Claim(ctx context.Context, keyid, nonce string, life time.Duration) error {
	return f(ctx, keyid, nonce, life)
}

// TestNonceKeyIsFrozen: a later build knows the nonces that this one has accepted.
func TestNonceKeyIsFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.NoError(t, httpsig.NoncesOn(engineOn(t, w.store)).Claim(t.Context(), "key/1", "n é", time.Minute), "claim")
	var key storeapi.StoreKey
	assert.NoError(t, key.UnmarshalText([]byte("app/sig/key%2F1/nonce/n%20%C3%A9")), "key")
	rec, err := w.store.Lookup(t.Context(), key)
	assert.NoError(t, err, "look")
	assert.Equal(t, rec.State, storeapi.StateIssued, "the record of a nonce")
}
