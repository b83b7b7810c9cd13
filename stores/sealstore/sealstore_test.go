package sealstore_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestStore: a sealed store fulfils the whole contract, with data keys in the same store, in
// another one and in a directory.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]func(*testing.T) sealstore.Keys{
		"in the store":   func(*testing.T) sealstore.Keys { return nil },
		"in another one": func(*testing.T) sealstore.Keys { return sealstore.KeysIn(memstore.New(nil)) },
		"in a directory": newDir,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				t.Helper()
				clock := storetest.NewClock()
				inner := memstore.New(&memstore.Options{Now: clock.Now})
				return storetest.Backend{
					Store:   sealstore.New(inner, sealstore.NewRing("a"), &sealstore.Options{Keys: keys(t), OnlySealed: true}),
					Advance: clock.Advance, Rewind: clock.Rewind,
				}
			}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true})
		})
	}
}

func newDir(t *testing.T) sealstore.Keys {
	t.Helper()
	keys, err := sealstore.KeysDir(t.TempDir())
	assert.NoError(t, err, "a directory of keys")
	return keys
}

// world is a store, and a sealed store before it.
type world struct {
	*sealstore.Store
	inner storeapi.Store
	ring  *sealstore.Ring
	clock *storetest.Clock
	why   []error // why something was not opened
}

func newWorld(o sealstore.Options) *world {
	w := &world{inner: memstore.New(nil), ring: sealstore.NewRing("2026-11"), clock: storetest.NewClock()}
	w.Store = w.newProcess(w.ring, o)
	return w
}

// newProcess returns the sealed store of another process.
func (w *world) newProcess(ring *sealstore.Ring, o sealstore.Options) *sealstore.Store {
	o.Now = w.clock.Now
	o.OnUnopened = func(_ storeapi.StoreKey, why error) { w.why = append(w.why, why) }
	return sealstore.New(w.inner, ring, &o)
}

func newKey(tenant, id string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: "shop", Layer: "fn", Key: storeapi.Key{Tenant: tenant, Operation: "charge", ID: id}}
}

func newRequest(k storeapi.StoreKey) storeapi.AcquireRequest {
	r := storeapi.AcquireRequest{
		Key: k, Fingerprint: []byte("\x01print"), Lease: time.Hour, Retention: 24 * time.Hour, OnDoubt: storeapi.Refuse,
	}
	r.Owner[0] = 1
	return r
}

// duplicateRequest is a request of another caller.
func duplicateRequest(k storeapi.StoreKey) storeapi.AcquireRequest {
	r := newRequest(k)
	r.Owner[0] = 2
	return r
}

const secret = `{"iban":"DE89370400440532013000"}`

// finishRecord makes a finished record with the secret.
func finishRecord(t *testing.T, s storeapi.Store, k storeapi.StoreKey, state storeapi.State) storeapi.Record {
	t.Helper()
	got, err := s.Acquire(t.Context(), newRequest(k))
	assert.NoError(t, err, "acquire")
	assert.Equal(t, got.Status, storeapi.StatusAcquired, "acquire")
	rec, err := s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: k, Owner: got.Record.Owner, Fence: got.Record.Fence, State: state,
		Answer: storeapi.Answer{Codec: "json", Body: []byte(secret), Kept: true},
	})
	assert.NoError(t, err, "complete")
	assert.Equal(t, string(rec.Answer.Body), secret, "what Complete returns")
	return rec
}

// callDuplicate makes another call, which must find finished work.
func callDuplicate(t *testing.T, s storeapi.Store, k storeapi.StoreKey) storeapi.Record {
	t.Helper()
	got, err := s.Acquire(t.Context(), duplicateRequest(k))
	assert.NoError(t, err, "a duplicate")
	assert.Equal(t, got.Status, storeapi.StatusFinished, "a duplicate")
	return got.Record
}

// wantOpened wants a duplicate to get the secret.
func wantOpened(t *testing.T, s storeapi.Store, k storeapi.StoreKey) {
	t.Helper()
	a := callDuplicate(t, s, k).Answer
	assert.True(t, a.Kept && a.Codec == "json", "the answer is opened: %v", a)
	assert.Equal(t, string(a.Body), secret, "the answer")
}

// wantUnopened wants a duplicate to find finished work without an answer.
func (w *world) wantUnopened(t *testing.T, s storeapi.Store, k storeapi.StoreKey, why string) {
	t.Helper()
	w.why = nil
	rec := callDuplicate(t, s, k)
	assert.Equal(t, rec.State, storeapi.StateCompleted, "the outcome is known")
	assert.True(t, !rec.Answer.Kept && rec.Answer.Sealed(), "the answer stays sealed: %v", rec.Answer)
	assert.Equal(t, len(w.why), 1, "reasons")
	assert.Contains(t, w.why[0].Error(), why, "the reason")
}
