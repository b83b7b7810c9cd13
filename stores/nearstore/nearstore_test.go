package nearstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestStore: a store with copies fulfils the whole contract, with a clock that advances with the
// store's.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Backend {
		clock := storetest.NewClock()
		inner := memstore.New(&memstore.Options{Now: clock.Now})
		return storetest.Backend{
			Store: nearstore.New(inner, &nearstore.Options{Age: time.Hour, Now: clock.Now}), Advance: clock.Advance, Rewind: clock.Rewind,
		}
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true})
}

func TestWrapper(t *testing.T) {
	t.Parallel()
	storetest.RunWrapper(t, func(s storeapi.Store) storeapi.Store { return nearstore.New(s, nil) })
}

// world is a store with copies; it counts the calls to its inner store.
type world struct {
	*nearstore.Store
	inner *storetest.Faulty
	clock *storetest.Clock
	asked int
	away  bool
}

func newWorld(o nearstore.Options) *world {
	w := &world{clock: storetest.NewClock()}
	o.Now = w.clock.Now
	w.inner = storetest.NewFaulty(memstore.New(&memstore.Options{Now: w.clock.Now}), func(op string, _ int) storetest.Fault {
		if op == "acquire" {
			w.asked++
		}
		if w.away {
			return storetest.LoseRequest
		}
		return 0
	})
	w.Store = nearstore.New(w.inner, &o)
	return w
}

func newRequest(id string) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key:   storeapi.StoreKey{Namespace: "n", Layer: "l", Key: storeapi.Key{Tenant: "t", Operation: "o", ID: id}},
		Owner: storeapi.Owner{1}, Fingerprint: []byte("1print"), Binding: []byte("binding"), Lease: time.Minute, Retention: time.Hour,
		OnDoubt: storeapi.Refuse,
	}
}

// finishKey creates a finished record.
func (w *world) finishKey(t *testing.T, id string, state storeapi.State, size int) {
	t.Helper()
	req := newRequest(id)
	got, err := w.Acquire(t.Context(), req)
	assert.NoError(t, err, "acquire")
	assert.Equal(t, got.Status, storeapi.StatusAcquired, "acquire")
	_, err = w.Complete(t.Context(), storeapi.CompleteRequest{
		Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, State: state, Answer: storeapi.Answer{Kept: true, Body: make([]byte, size)},
	})
	assert.NoError(t, err, "complete")
}

// callDuplicate makes a duplicate, and reports whether the inner store was asked.
func (w *world) callDuplicate(t *testing.T, id string, change func(*storeapi.AcquireRequest)) (storeapi.Acquired, bool) {
	t.Helper()
	req, before := newRequest(id), w.asked
	req.Owner = storeapi.Owner{2}
	if change != nil {
		change(&req)
	}
	got, err := w.Acquire(t.Context(), req)
	assert.NoError(t, err, "a repeat")
	return got, w.asked > before
}

// callDuplicates makes as many duplicates as a copy needs.
func (w *world) callDuplicates(t *testing.T, id string) storeapi.Acquired {
	t.Helper()
	w.callDuplicate(t, id, nil)
	got, asked := w.callDuplicate(t, id, nil)
	assert.True(t, asked && got.Status == storeapi.StatusFinished, "the second repeat: %v", got.Status)
	return got
}

// TestCopies: the first two duplicates ask the store. Later ones get the same answer without it,
// with the store's current time, until the copy is too old.
func TestCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(nearstore.Options{Age: 10 * time.Second})
	w.finishKey(t, "k", storeapi.StateCompleted, 10)
	first := w.callDuplicates(t, "k")
	w.clock.Advance(9 * time.Second)
	copied, asked := w.callDuplicate(t, "k", nil)
	assert.True(t, !asked, "the third is answered here")
	assert.Equal(t, copied.Record.Now.Sub(first.Record.Now), 9*time.Second, "the store's time")
	copied.Record.Now = first.Record.Now
	assert.Equal(t, copied, first, "the copy")
	copied.Record.Answer.Body[0] = 'x'
	once, _ := w.callDuplicate(t, "k", nil)
	assert.Equal(t, once.Record.Answer.Body[0], byte(0), "what a caller does with its answer is its own affair")
	w.clock.Advance(time.Second)
	_, asked = w.callDuplicate(t, "k", nil)
	assert.True(t, asked, "a copy that is too old")
}

// TestWhatIsAsked: calls that a copy cannot answer for certain.
func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state  storeapi.State
		change func(*world, *storeapi.AcquireRequest)
		want   storeapi.Status
	}{
		"another payload":    {storeapi.StateCompleted, func(_ *world, r *storeapi.AcquireRequest) { r.Fingerprint = []byte("1other") }, storeapi.StatusMismatch},
		"another credential": {storeapi.StateCompleted, func(_ *world, r *storeapi.AcquireRequest) { r.Binding = []byte("x") }, storeapi.StatusPrincipalChanged},
		"no payload":         {storeapi.StateCompleted, func(_ *world, r *storeapi.AcquireRequest) { r.Fingerprint = nil }, storeapi.StatusFinished},
		"a resolution":       {storeapi.StateCompleted, func(_ *world, r *storeapi.AcquireRequest) { r.IfFence = 1 }, storeapi.StatusFenceChanged},
		"an issued key":      {storeapi.StateCompleted, func(_ *world, r *storeapi.AcquireRequest) { r.MustBeIssued = true }, storeapi.StatusNotIssued},
		"a failure":          {storeapi.StateFailed, nil, storeapi.StatusFinished},
		"the retention":      {storeapi.StateCompleted, func(w *world, _ *storeapi.AcquireRequest) { w.clock.Advance(time.Hour) }, storeapi.StatusAcquired},
		"almost over":        {storeapi.StateCompleted, func(w *world, _ *storeapi.AcquireRequest) { w.clock.Advance(time.Hour - time.Millisecond) }, storeapi.StatusFinished},
		"a clock set back":   {storeapi.StateCompleted, func(w *world, _ *storeapi.AcquireRequest) { w.clock.Rewind(time.Minute) }, storeapi.StatusFinished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(nearstore.Options{Age: 24 * time.Hour})
			w.finishKey(t, "k", tt.state, 10)
			if tt.state == storeapi.StateCompleted {
				w.callDuplicates(t, "k")
			}
			w.callDuplicate(t, "k", nil)
			got, asked := w.callDuplicate(t, "k", func(r *storeapi.AcquireRequest) {
				if tt.change != nil {
					tt.change(w, r)
				}
			})
			assert.True(t, asked, "the store is asked")
			assert.Equal(t, got.Status, tt.want, "its answer")
		})
	}
}

// TestBounds: copies use no more than their memory, and large records are not copied.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(nearstore.Options{Bytes: 64 << 10})
	for i := range 100 {
		id := fmt.Sprint(i)
		w.finishKey(t, id, storeapi.StateCompleted, 1000)
		w.callDuplicates(t, id)
	}
	near := 0
	for i := range 100 {
		if _, asked := w.callDuplicate(t, fmt.Sprint(99-i), nil); !asked {
			near++
		}
	}
	assert.True(t, near >= 10 && near <= 64, "copies of 1.6 kB in 64 KiB: %d", near)
	w.finishKey(t, "large", storeapi.StateCompleted, 10<<10)
	w.callDuplicates(t, "large")
	_, asked := w.callDuplicate(t, "large", nil)
	assert.True(t, asked, "a large one is asked for")
}

// TestStoreAway: copies answer while the store is unavailable, also through an engine. Other calls
// fail.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	w := newWorld(nearstore.Options{})
	w.finishKey(t, "k", storeapi.StateCompleted, 10)
	w.callDuplicates(t, "k")
	w.away = true
	got, asked := w.callDuplicate(t, "k", nil)
	assert.True(t, !asked && got.Status == storeapi.StatusFinished, "what is near: %v", got.Status)
	_, err := w.Acquire(t.Context(), newRequest("other"))
	assert.True(t, err != nil, "what is not")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Acquire(ctx, newRequest("k"))
	assert.True(t, errors.Is(err, context.Canceled), "a caller that is gone: %v", err)
}

// TestForgottenCopy: the copy of a record whose answer was removed is not used.
func TestForgottenCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(nearstore.Options{})
	w.finishKey(t, "k", storeapi.StateCompleted, 10)
	rec := w.callDuplicates(t, "k").Record
	_, asked := w.callDuplicate(t, "k", nil)
	assert.True(t, !asked, "a duplicate is answered from the copy")
	assert.NoError(t, w.ForgetAnswer(t.Context(), storeapi.ForgetRequest{Key: rec.Key, Fence: rec.Fence}), "forget")
	got, asked := w.callDuplicate(t, "k", nil)
	assert.True(t, asked && got.Status == storeapi.StatusFinished && got.Record.Answer.Body == nil, "a duplicate after that: asked %t, %v", asked, got)
}
