package storetest

import (
	"context"
	"runtime"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s11Contexts: a call whose context is cancelled took effect fully or not at all. No call hangs
// past its context.
func s11Contexts(e *env) {
	e.runSubtest("a context that has ended", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		for _, c := range storeCalls {
			r := e.claim(e.newRequest(e.key()))
			before := e.lookup(r.Key)
			err := awaitReturn(e, c.name, func() error { return c.make(ctx, e.Store, r) })
			assert.ErrorIs(e, err, context.Canceled, "%s with a context that had ended", c.name)
			e.wantUnchanged(before, c.name+" with a context that had ended")
		}
		fresh := e.newRequest(e.key())
		_, err := e.Store.Acquire(ctx, fresh)
		assert.ErrorIs(e, err, context.Canceled, "Acquire with a context that had ended")
		e.wantAbsent(fresh.Key, "Acquire with a context that had ended")
	})
	e.runSubtest("a context that ends during Acquire", func(e *env) {
		for i := range 25 {
			req := e.newRequest(e.key())
			req.Fingerprint, req.Binding = printA, bindA
			a, err := cancelDuring(e, i, "Acquire", func(ctx context.Context) (storeapi.Acquired, error) { return e.Store.Acquire(ctx, req) })
			r := e.lookup(req.Key)
			if err == nil {
				e.wantSame(r, a.Record, "the record that was won before the context ended")
			}
			if r.State == 0 {
				continue
			}
			// Applied: completely, and a repeated call gets that answer.
			assert.Equal(e, string(r.Fingerprint)+string(r.Binding), string(printA)+string(bindA), "fingerprint and binding")
			again := e.acquire(req, storeapi.StatusAcquired, "a repeat of a call that was cut off")
			assert.Equal(e, again.Fence, r.Fence, "fence of a repeat of a call that was cut off")
		}
	})
	e.runSubtest("a context that ends during Complete", func(e *env) {
		body := strings.Repeat("a long answer ", 10_000)
		for i := range 25 {
			before := e.claim(e.newRequest(e.key()))
			_, err := cancelDuring(e, i, "Complete", func(ctx context.Context) (storeapi.Record, error) {
				return e.Store.Complete(ctx, completeRequest(before, body))
			})
			if r := e.lookup(before.Key); err == nil || r.State != storeapi.StateInProgress {
				e.wantAnswered(r, storeapi.StateCompleted, rawAnswer(body), "after a Complete that was cut off")
			} else {
				e.wantSame(r, before, "a record whose Complete was cut off before it was applied")
			}
			e.wantAnswered(e.complete(completeRequest(before, body)), storeapi.StateCompleted, rawAnswer(body), "a repeat of Complete")
		}
	})
	if e.Stall != nil {
		e.runSubtest("a server that hangs", func(e *env) {
			for _, c := range storeCalls {
				r := e.claim(e.newRequest(e.key()))
				resume := sync.OnceFunc(e.Stall())
				e.Cleanup(resume)
				ctx, cancel := context.WithCancel(e.ctx)
				err := awaitReturn(e, c.name+" while the server hangs", func() error {
					defer cancelSoon(cancel)()
					return c.make(ctx, e.Store, r)
				})
				resume()
				assert.True(e, err != nil, "%s fails while the server hangs", c.name)
			}
		})
	}
	if e.Hold != nil {
		e.runSubtest("a key in somebody's transaction", func(e *env) {
			key := e.key()
			defer e.Hold(key)()
			ctx, cancel := context.WithCancel(e.ctx)
			_ = awaitReturn(e, "Acquire of a key in somebody's transaction", func() error {
				defer cancelSoon(cancel)()
				_, err := e.Store.Acquire(ctx, e.newRequest(key))
				return err
			})
		})
	}
}

// cancelDuring ends the context of the call at the i-th of many moments after its start.
func cancelDuring[R any](e *env, i int, what string, call func(context.Context) (R, error)) (R, error) {
	e.Helper()
	type result struct {
		r   R
		err error
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	got := awaitReturn(e, what+" whose context ends", func() result {
		go func() {
			for range 8 * i {
				runtime.Gosched()
			}
			cancel()
		}()
		r, err := call(ctx)
		return result{r, err}
	})
	return got.r, got.err
}

// cancelSoon cancels from another goroutine when the call has most likely begun; wait waits for
// that.
func cancelSoon(cancel func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			runtime.Gosched()
		}
		cancel()
	}()
	return func() { <-done }
}

// storeCalls are the five calls, on a key whose record r is in progress.
var storeCalls = []struct {
	name string
	make func(ctx context.Context, s storeapi.Store, r storeapi.Record) error
}{
	{"Acquire", func(ctx context.Context, s storeapi.Store, r storeapi.Record) error {
		_, err := s.Acquire(ctx, storeapi.AcquireRequest{
			Key: r.Key, Owner: newOwner(), Lease: retention, Retention: retention, OnDoubt: storeapi.Refuse,
		})
		return err
	}},
	{"Extend", func(ctx context.Context, s storeapi.Store, r storeapi.Record) error {
		return s.Extend(ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: retention})
	}},
	{"Complete", func(ctx context.Context, s storeapi.Store, r storeapi.Record) error {
		_, err := s.Complete(ctx, completeRequest(r, "answer"))
		return err
	}},
	{"Release", func(ctx context.Context, s storeapi.Store, r storeapi.Record) error {
		return s.Release(ctx, releaseRequest(r))
	}},
	{"Lookup", func(ctx context.Context, s storeapi.Store, r storeapi.Record) error {
		_, err := s.Lookup(ctx, r.Key)
		return err
	}},
}
