package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestHistoryWithoutAnswer: while the server with the marks is away, what it said before holds and
// no request waits, since the keys of other servers run. When it is there again in an older state,
// that is noticed at once.
func TestHistoryWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, restored atomic.Bool
		e := retrysafe.New(newRestoredStore(storetest.Block, &away, &restored), &retrysafe.Options{Sweep: -1})
		h := newHistoryCheck(e, &Options{}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var looks sync.WaitGroup
		assert.NoError(t, h.requireHistory(ctx), "at first")
		away.Store(true)
		reloaded := newHistoryCheck(e, &Options{}, slog.New(slog.DiscardHandler))
		reloaded.inherit(h)
		looks.Go(func() { reloaded.keepLooking(ctx) })
		assert.NoError(t, reloaded.requireHistory(ctx), "after a reload")
		for range 100 {
			// also between two looks, and while one is under way
			time.Sleep(3050 * time.Millisecond)
			began := time.Now()
			assert.NoError(t, reloaded.requireHistory(ctx), "while it is away")
			assert.NoError(t, h.requireHistory(ctx), "a request that began before the reload")
			assert.Equal(t, time.Since(began), 0, "the wait of a request")
		}
		restored.Store(true)
		away.Store(false)
		time.Sleep(markTime + 2*markAgain) // a look that was sent before has no answer
		assert.ErrorIs(t, h.requireHistory(ctx), retrysafe.ErrStoreWentBack, "when it is there again")
		stop()
		looks.Wait()
		assert.NoError(t, e.Shutdown(t.Context()), "shut down")
	})
}

// TestHistoryAfterStandingStill: a process that stood still while the store did not answer begins
// nothing until it answers, since it may have gone back meanwhile.
func TestHistoryAfterStandingStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, restored atomic.Bool
		e := retrysafe.New(newRestoredStore(storetest.LoseRequest, &away, &restored), &retrysafe.Options{Sweep: -1})
		h := newHistoryCheck(e, &Options{}, slog.New(slog.DiscardHandler))
		assert.NoError(t, h.requireHistory(t.Context()), "at first")
		time.Sleep(stoodStill - time.Second)
		away.Store(true)
		assert.NoError(t, h.requireHistory(t.Context()), "a little later: nothing is asked")
		time.Sleep(2 * time.Second)
		for range 3 {
			assert.ErrorIs(t, h.requireHistory(t.Context()), retrysafe.ErrUnavailable, "while the store is away")
		}
		restored.Store(true)
		away.Store(false)
		assert.ErrorIs(t, h.requireHistory(t.Context()), retrysafe.ErrStoreWentBack, "when it is there again")
		assert.NoError(t, e.Shutdown(t.Context()), "shut down")
	})
}

// restoredStore is one of two stores.
type restoredStore struct {
	storeapi.Store

	is       storeapi.Store
	restored *atomic.Bool
}

// newRestoredStore returns a store whose calls meet a fault while it is away.
func newRestoredStore(fault storetest.Fault, away, restored *atomic.Bool) *restoredStore {
	faults := func(string, int) storetest.Fault {
		if away.Load() {
			return fault
		}
		return 0
	}
	return &restoredStore{storetest.NewFaulty(memstore.New(nil), faults), storetest.NewFaulty(memstore.New(nil), faults), restored}
}

func (s *restoredStore) now() storeapi.Store {
	if s.restored.Load() {
		return s.is
	}
	return s.Store
}

func (s *restoredStore) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return s.now().Acquire(ctx, req)
}

func (s *restoredStore) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return s.now().Lookup(ctx, key)
}

func (s *restoredStore) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	return s.now().Release(ctx, req)
}

// claimHook calls a function before each claim of a request.
type claimHook struct {
	*restoredStore
	before   func(context.Context)
	released atomic.Int64
}

func (s *claimHook) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	err := s.restoredStore.Release(ctx, req)
	if err == nil {
		s.released.Add(1)
	}
	return err
}

func (s *claimHook) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if req.Key.Layer == "gw" && s.before != nil {
		s.before(ctx)
	}
	return s.restoredStore.Acquire(ctx, req)
}

// TestStoreGoesBackBeforeAClaim: a request that was admitted before the store went back does not
// run if it claims its key afterwards, as a duplicate does that waits.
func TestStoreGoesBackBeforeAClaim(t *testing.T) {
	t.Parallel()
	var away, restored atomic.Bool
	s := &claimHook{restoredStore: newRestoredStore(storetest.Block, &away, &restored)}
	logger := slog.New(slog.DiscardHandler)
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Logger: logger})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(up.Close)
	g, err := New(e, &Options{Upstreams: []string{up.URL}, Logger: logger})
	assert.NoError(t, err, "gateway")
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	pay := func(key string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/payments", http.NoBody)
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", key+"-0123456789abcdef")
		r.Header.Set("Authorization", "Bearer of-one-caller")
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "answer")
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	assert.Equal(t, pay("first"), http.StatusCreated, "before")
	s.before = func(ctx context.Context) {
		restored.Store(true)
		assert.NoError(t, g.history.markStore(ctx), "a look")
	}
	assert.Equal(t, pay("second"), http.StatusServiceUnavailable, "a claim after the look")
	assert.Equal(t, effects.Load(), 1, "requests that were passed on")
	assert.Equal(t, s.released.Load(), 1, "keys that were released")
}

// TestRequestsShareALook: requests that wait for the store's history wait for one look, and not for
// one after the other.
func TestRequestsShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewFaulty(memstore.New(nil), func(op string, _ int) storetest.Fault {
			if op == "lookup" {
				return storetest.Block
			}
			return 0
		})
		e := retrysafe.New(s, &retrysafe.Options{Sweep: -1})
		h := newHistoryCheck(e, &Options{}, slog.New(slog.DiscardHandler))
		var asked sync.WaitGroup
		began := time.Now()
		for range 20 {
			asked.Go(func() {
				err := h.requireHistory(t.Context())
				assert.True(t, errors.Is(err, retrysafe.ErrUnavailable), "error: %v", err)
			})
		}
		asked.Wait()
		assert.True(t, time.Since(began) <= 2*markTime, "20 requests waited for %v", time.Since(began))
		assert.NoError(t, e.Shutdown(t.Context()), "shut down")
	})
}

// TestHistoryOfALaterBuild: marks that this build cannot read are not counted, since fewer of them
// than before would be an alert. New keys run.
func TestHistoryOfALaterBuild(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	_, err := s.Acquire(t.Context(), storeapi.AcquireRequest{
		Key: storeapi.StoreKey{Namespace: e.Namespace(), Layer: "mark", Key: storeapi.Key{Operation: "mark", ID: "last"}}, Owner: storeapi.Owner{1},
		Lease: 1, Retention: storeapi.Forever, Binding: []byte{2, 1}, Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "none"}, Cause: "mark"},
	})
	assert.NoError(t, err, "the record")
	m := NewMonitor(nil)
	h := newHistoryCheck(e, &Options{Monitor: m}, slog.New(slog.DiscardHandler))
	assert.NoError(t, h.requireHistory(t.Context()), "a new key")
	all, err := m.registry.Gather()
	assert.NoError(t, err, "metrics")
	for _, f := range all {
		assert.True(t, f.GetName() != "retrysafe_store_marks", "marks are counted: %v", f)
	}
}
