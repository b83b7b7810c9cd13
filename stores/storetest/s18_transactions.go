package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s18Transactions: a call never waits for another caller's transaction longer than its context, and
// never delays calls for other keys.
func s18Transactions(e *env) {
	e.runSubtest("a call for a held key ends with its context", func(e *env) {
		key := e.key()
		release := sync.OnceFunc(e.Hold(key))
		e.Cleanup(release)
		for range 2 {
			ctx, cancel := context.WithTimeout(e.ctx, 30*time.Millisecond)
			got := awaitReturn(e, "Acquire of a held key", func() acquireResult {
				a, err := e.Store.Acquire(ctx, e.newRequest(key))
				return acquireResult{a, err}
			})
			cancel()
			assert.True(e, got.err != nil || got.Status != storeapi.StatusAcquired, "a held key is not won: got %s", statusName(got.Status))
		}
		release()
	})
	e.runSubtest("calls for other keys go on", func(e *env) {
		live := e.claim(e.newRequest(e.key()))
		key, other := e.key(), e.newRequest(e.key())
		release := sync.OnceFunc(e.Hold(key))
		e.Cleanup(release)
		// Other callers wait for the key meanwhile. Calls after them in a batch or a pool must not
		// wait.
		ctx, cancel := context.WithCancel(e.ctx)
		var waiting sync.WaitGroup
		for range crowd {
			waiting.Go(func() { _, _ = e.Store.Acquire(ctx, e.newRequest(key)) })
		}
		e.Cleanup(cancel)
		e.callOtherKeys(live, other)
		cancel()
		awaitReturn(e, "Acquire of a held key", func() struct{} { waiting.Wait(); return struct{}{} })
		release()
	})
	e.runSubtest("when the transaction is rolled back the key is free", func(e *env) {
		key := e.key()
		release := sync.OnceFunc(e.Hold(key))
		e.Cleanup(release)
		waiter := make(chan acquireResult, 1)
		go func() { waiter <- e.tryAcquire(e.newRequest(key)) }()
		e.waitRealTime(10 * time.Millisecond)
		release()
		got := awaitReturn(e, "Acquire behind a transaction that was rolled back", func() acquireResult { return <-waiter })
		if got.err == nil && got.Status == storeapi.StatusAcquired {
			e.release(got.Record)
		}
		e.claim(e.newRequest(key))
	})
}

// callOtherKeys makes each call for keys that no transaction holds. A store with one writer only
// delays the writes, and may refuse them in time.
func (e *env) callOtherKeys(live storeapi.Record, other storeapi.AcquireRequest) {
	e.Helper()
	for _, c := range []struct {
		name  string
		write bool
		make  func(context.Context) error
	}{
		{"Lookup", false, func(ctx context.Context) error { _, err := e.Store.Lookup(ctx, live.Key); return err }},
		{"Acquire", true, func(ctx context.Context) error { _, err := e.Store.Acquire(ctx, other); return err }},
		{"Extend", true, func(ctx context.Context) error {
			return e.Store.Extend(ctx, storeapi.ExtendRequest{Key: live.Key, Owner: live.Owner, Fence: live.Fence, Lease: time.Hour})
		}},
		{"Complete", true, func(ctx context.Context) error {
			_, err := e.Store.Complete(ctx, completeRequest(live, "done"))
			return err
		}},
	} {
		limit := e.f.Grace / 2
		if c.write && e.f.SingleWriter {
			limit = 50 * time.Millisecond // it will not succeed
		}
		ctx, cancel := context.WithTimeout(e.ctx, limit)
		err := awaitReturn(e, c.name+" of another key", func() error { return c.make(ctx) })
		cancel()
		if !c.write || !e.f.SingleWriter {
			assert.NoError(e, err, "%s of another key while somebody's transaction is open", c.name)
		}
	}
}
