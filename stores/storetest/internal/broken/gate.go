package broken

import (
	"context"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// gate stands in front of a store like a server and its connections: it can hang, and another
// party's transaction can hold a key.
type gate struct {
	inner *store
	// ignoresContext: callers wait for the server longer than their contexts allow.
	ignoresContext bool
	// ignoresContextOfHolds: the same, but only for a held key.
	ignoresContextOfHolds bool
	// oneLane: a held key delays the writes of all keys.
	oneLane bool
	// checksEarly: NotAfter is checked before the wait instead of after it.
	checksEarly bool
	// servesAll: a call that left while it waited for a held key is applied nevertheless.
	servesAll bool

	mu      sync.Mutex // guards what follows
	stalled chan struct{}
	held    map[storeapi.StoreKey]chan struct{}
	waiting sync.WaitGroup
	closed  chan struct{}
}

func newGate(s *store) *gate {
	return &gate{inner: s, held: map[storeapi.StoreKey]chan struct{}{}, closed: make(chan struct{})}
}

// endWaits ends every wait.
func (g *gate) endWaits() {
	close(g.closed)
	g.waiting.Wait()
}

func (g *gate) stallServer() (resume func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stalled := make(chan struct{})
	g.stalled = stalled
	return func() {
		g.mu.Lock()
		g.stalled = nil
		g.mu.Unlock()
		close(stalled)
		g.waiting.Wait()
	}
}

func (g *gate) holdKey(key storeapi.StoreKey) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.held[key] = held
	return func() {
		g.mu.Lock()
		delete(g.held, key)
		g.mu.Unlock()
		close(held)
		g.waiting.Wait()
	}
}

// waitFor returns what a call has to wait for; nil: nothing.
func (g *gate) waitFor(key storeapi.StoreKey, write bool) (wait chan struct{}, hang bool) {
	if g.stalled != nil {
		return g.stalled, true
	}
	if held := g.held[key]; held != nil {
		return held, false
	}
	if g.oneLane && write {
		for _, held := range g.held {
			return held, false
		}
	}
	return nil, false
}

// enterGate makes a call when the server accepts it. A server that hangs has accepted the request
// and applies it when it continues. A call that waits for a transaction is withdrawn when its
// caller leaves.
func enterGate[R any](ctx context.Context, g *gate, key storeapi.StoreKey, write bool, apply func(context.Context) (R, error)) (zero R, err error) {
	g.mu.Lock()
	wait, hang := g.waitFor(key, write)
	if wait == nil {
		g.mu.Unlock()
		return apply(ctx)
	}
	g.waiting.Add(1)
	g.mu.Unlock()
	type result struct {
		r   R
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer g.waiting.Done()
		select {
		case <-wait:
		case <-g.closed:
			done <- result{err: context.Canceled}
			return
		}
		in := ctx
		if hang || g.servesAll {
			in = context.WithoutCancel(ctx)
		}
		r, err := apply(in)
		done <- result{r, err}
	}()
	left := ctx.Done()
	if g.ignoresContext || g.ignoresContextOfHolds && !hang {
		left = nil
	}
	select {
	case got := <-done:
		return got.r, got.err
	case <-left:
		return zero, ctx.Err()
	}
}

func (g *gate) Acquire(ctx context.Context, req acquireReq) (storeapi.Acquired, error) {
	if g.checksEarly {
		if g.inner.clock().After(req.NotAfter) && !req.NotAfter.IsZero() {
			return storeapi.Acquired{}, storeapi.ErrTooLate
		}
		late := req.NotAfter
		return enterGate(ctx, g, req.Key, true, func(ctx context.Context) (storeapi.Acquired, error) {
			if g.inner.clock().After(late) {
				req.NotAfter = time.Time{}
			}
			return g.inner.Acquire(ctx, req)
		})
	}
	return enterGate(ctx, g, req.Key, true, func(ctx context.Context) (storeapi.Acquired, error) { return g.inner.Acquire(ctx, req) })
}

func (g *gate) Extend(ctx context.Context, req extendReq) error {
	_, err := enterGate(ctx, g, req.Key, true, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.inner.Extend(ctx, req) })
	return err
}

func (g *gate) Complete(ctx context.Context, req completeReq) (storeapi.Record, error) {
	return enterGate(ctx, g, req.Key, true, func(ctx context.Context) (storeapi.Record, error) { return g.inner.Complete(ctx, req) })
}

func (g *gate) Release(ctx context.Context, req releaseReq) error {
	_, err := enterGate(ctx, g, req.Key, true, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.inner.Release(ctx, req) })
	return err
}

func (g *gate) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return enterGate(ctx, g, key, false, func(ctx context.Context) (storeapi.Record, error) { return g.inner.Lookup(ctx, key) })
}

func (g *gate) Issue(ctx context.Context, req issueReq) (status, error) {
	return enterGate(ctx, g, req.Key, true, func(ctx context.Context) (status, error) { return g.inner.Issue(ctx, req) })
}

func (g *gate) Sweep(ctx context.Context, limit int) (int, error) { return g.inner.Sweep(ctx, limit) }
