package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// Locker gives locks on one backend. It is safe for concurrent use; make one for each backend and
// share it: its callers wait in turn, so that they are one client of the server.
//
// Within one locker, locks of a name are given in the order in which they were asked for. Between
// processes the order is the backend's, and most have none.
type Locker struct {
	backend Backend
	o       Options
	turns   turns

	mu     sync.Mutex
	closed bool
	holds  map[*hold]struct{}
	work   sync.WaitGroup // holds, and what is sent behind them
	ctx    context.Context
	stop   context.CancelFunc

	closing context.Context // ended by Shutdown, for those who wait
	close   context.CancelCauseFunc
}

// New returns a locker. It panics on options that make no sense.
func New(b Backend, o *Options) *Locker {
	if b == nil {
		panic("lock: New needs a backend: memlock, redislock, sqllock or an adapter")
	}
	l := &Locker{backend: b, holds: make(map[*hold]struct{})}
	if o != nil {
		l.o = *o
	}
	var err error
	if l.o, err = l.o.checked(); err != nil {
		panic(err.Error())
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.closing, l.close = context.WithCancelCause(context.Background())
	return l
}

// Lock waits for the lock until ctx ends. Inside of a context that comes from a lock of the same
// name and locker ([Lock.Context]) it does not wait: that lock is held once more, and ends with its
// last Release. Two goroutines that share such a context both hold it.
//
// Errors: that of ctx together with [ErrHeld] where another one had it until then; [ErrName];
// [ErrLost] inside of a lock that was lost; [ErrClosed]; those of the backend, after which what may
// have been taken is given back, or ends with its lease.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	o, held, err := l.begin(ctx, name, opts)
	if held != nil || err != nil {
		return held, err
	}
	defer l.work.Done()
	if err := l.turns.take(ctx, l.closing, name); err != nil {
		return nil, waited(err)
	}
	req := newRequest(name, o.Lease)
	for {
		h, err := l.try(ctx, req, o)
		if err == nil {
			return h.lock(ctx), nil
		}
		if errors.Is(err, ErrHeld) {
			if err = l.wait(ctx, req); err == nil {
				continue
			}
		}
		l.giveUp(req)
		return nil, err
	}
}

// wait waits for a better time to try; the error is that of the context where it has ended.
func (l *Locker) wait(ctx context.Context, req Request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closing, func() { cancel(ErrClosed) })()
	var err error
	for range tries { // a server that fails over is no reason to send everybody home
		if err = l.backend.Wait(ctx, req); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return waited(context.Cause(ctx))
		}
		if backoff.Pause(ctx, between(req.Lease)) != nil {
			return waited(context.Cause(ctx))
		}
	}
	return err
}

// TryLock is Lock without waiting: [ErrHeld] where another one has it, or another goroutine of this
// process is about to.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	o, held, err := l.begin(ctx, name, opts)
	if held != nil || err != nil {
		return held, err
	}
	defer l.work.Done()
	if !l.turns.tryTake(name) {
		if err := l.turns.failing(name); err != nil {
			return nil, err
		}
		return nil, ErrHeld
	}
	req := newRequest(name, o.Lease)
	h, err := l.try(ctx, req, o)
	switch {
	case err == nil:
		return h.lock(ctx), nil
	case errors.Is(err, ErrHeld):
		l.turns.pass(name)
	default:
		l.giveUp(req)
	}
	return nil, err
}

// With runs fn while it holds the lock, and releases it also where fn panics. fn's context ends
// when the lock is lost; where it was, the error is fn's joined with [ErrLost] or [ErrBound], also
// when fn returned nil: another holder may have worked beside it.
//
// A release that the server did not confirm is no error of With: the work is done, and the lock
// ends with its lease.
func (l *Locker) With(ctx context.Context, name string, fn func(context.Context, *Lock) error, opts ...Option) (err error) {
	held, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	defer func() {
		if ended := held.Release(ctx); errors.Is(ended, ErrLost) || errors.Is(ended, ErrBound) {
			err = errors.Join(err, ended)
		}
	}()
	return fn(held.Context(), held)
}

// Shutdown refuses new locks, sends those home who wait for one ([ErrClosed]), and waits until
// those that are held are released. When ctx ends before, their holders are told that they are
// lost, with [ErrClosed], their leases are left to end, and the error is that of ctx.
func (l *Locker) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close(ErrClosed)
	ended := make(chan struct{})
	go func() {
		l.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		l.stop()
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	left := make([]*hold, 0, len(l.holds))
	for h := range l.holds {
		left = append(left, h)
	}
	l.mu.Unlock()
	for _, h := range left {
		h.end(ErrClosed, false)
	}
	l.stop()
	return context.Cause(ctx)
}

// begin checks what was asked, and takes the lock once more where the context has it. Else the call
// counts as work from then on.
func (l *Locker) begin(ctx context.Context, name string, opts []Option) (Options, *Lock, error) {
	if name == "" || len(name) > MaxName || strings.IndexByte(name, 0) >= 0 {
		return l.o, nil, ErrName
	}
	if err := ctx.Err(); err != nil {
		return l.o, nil, context.Cause(ctx)
	}
	if h := l.inside(ctx, name); h != nil {
		if again, err := h.again(ctx); again != nil || err != nil {
			return l.o, again, err
		}
	}
	o := l.o
	if len(opts) > 0 {
		var err error
		if o, err = o.with(opts); err != nil {
			return o, nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return o, nil, ErrClosed
	}
	l.work.Add(1)
	return o, nil, nil
}

// tries is how often a call is made whose answer is lost: all may be repeated.
const tries = 3

// try asks the backend, and once more where the answer was lost.
func (l *Locker) try(ctx context.Context, req Request, o Options) (*hold, error) {
	var err error
	for range tries {
		began := time.Now()
		var g Grant
		if g, err = l.backend.TryLock(ctx, req); err == nil {
			return l.hold(req, o, g, began)
		}
		l.turns.note(req.Name, err)
		if errors.Is(err, ErrHeld) || errors.Is(err, ErrName) || ctx.Err() != nil || backoff.Pause(ctx, between(o.Lease)) != nil {
			break
		}
	}
	return nil, err
}

// hold begins to look after what was granted.
func (l *Locker) hold(req Request, o Options, g Grant, began time.Time) (*hold, error) {
	h := &hold{locker: l, req: req, most: g.Lease, grant: g}
	h.locks = h.space[:0]
	if h.grant.Lease <= 0 || h.grant.Lease > o.Lease {
		h.grant.Lease = o.Lease
	}
	h.until, h.boundAt = began.Add(h.grant.Lease), began.Add(o.MaxHold)
	if !time.Now().Before(h.until) {
		return nil, fmt.Errorf("lock: the answer took longer than the lease of %v, so that the lock may be gone by now; choose a longer lease", o.Lease)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // since it was asked for; it is given back
		return nil, ErrClosed
	}
	l.holds[h] = struct{}{}
	l.work.Add(1)
	h.start()
	return h, nil
}

// forget is the end of what hold began.
func (l *Locker) forget(h *hold) {
	l.mu.Lock()
	delete(l.holds, h)
	l.mu.Unlock()
	l.work.Done()
}

// giveUp gives back what a try may have taken whose caller does not want it any more, or may never
// hear of it, and passes the turn on. Its caller counts as work.
func (l *Locker) giveUp(req Request) {
	// at once: while the server is away each caller would wait for the release of the one before
	l.turns.pass(req.Name)
	l.work.Go(func() { _ = l.unlock(req) })
}

// unlock tells the backend that it is over, as often as it takes. It has a lease of time for it,
// and ten seconds at most. Where the first answer was lost and the second says that there was
// nothing, nobody knows whether the first has released it or it was lost before: that is an error,
// and wraps [ErrLost].
func (l *Locker) unlock(req Request) error {
	ctx, cancel := context.WithTimeout(l.ctx, min(req.Lease, 10*time.Second))
	defer cancel()
	for n := 1; ; n++ {
		err := l.backend.Unlock(ctx, req)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrLost) && n > 1:
			return fmt.Errorf("lock: the answer to the release was lost, and another holder has come since, behind it or before: %w", ErrLost)
		case errors.Is(err, ErrLost) || backoff.Pause(ctx, between(req.Lease)) != nil:
			return err
		}
	}
}

func newRequest(name string, lease time.Duration) Request {
	r := Request{Name: name, Lease: lease}
	_, _ = rand.Read(r.Owner[:]) // never fails: it would end the process
	return r
}

// waited is the error of who has waited in vain.
func waited(cause error) error { return fmt.Errorf("%w (%w)", ErrHeld, cause) }

// between is the time between two tries.
func between(lease time.Duration) time.Duration { return min(lease/100, 100*time.Millisecond) }
