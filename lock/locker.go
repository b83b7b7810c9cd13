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

// Locker acquires locks on one backend. It is safe for concurrent use. Create one for each backend
// and share it: its callers queue for each name, so the server sees one client.
//
// Within one locker, callers get the lock of a name in the order in which they asked. Between
// processes the order is the backend's; most backends have none.
type Locker struct {
	backend Backend
	passer  Passer // the backend; nil if it is none
	o       Options
	queues  nameQueues

	mu     sync.Mutex
	closed bool
	holds  map[*hold]struct{}
	work   sync.WaitGroup // holds and their calls that run after them
	ctx    context.Context
	stop   context.CancelFunc

	closing      context.Context // ended by Shutdown, for waiters
	closeWaiters context.CancelCauseFunc
}

// New returns a locker. It panics on invalid options.
func New(b Backend, o *Options) *Locker {
	if b == nil {
		panic("lock: New needs a backend: memlock, redislock, sqllock or an adapter")
	}
	l := &Locker{backend: b, holds: make(map[*hold]struct{})}
	l.passer, _ = b.(Passer)
	if o != nil {
		l.o = *o
	}
	var err error
	if l.o, err = l.o.withDefaults(); err != nil {
		panic(err.Error())
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.closing, l.closeWaiters = context.WithCancelCause(context.Background())
	return l
}

// Lock waits for the lock until ctx ends. In a context that comes from a lock of the same name and
// locker ([Lock.Context]) it does not wait: it holds that lock once more, and the lock ends with
// its last Release. Two goroutines that share such a context both hold the lock.
//
// Errors: that of ctx joined with [ErrHeld] if another holder had the lock until then; [ErrName];
// [ErrLost] in the context of a lock that was lost; [ErrClosed]; those of the backend, after which
// a lock that may have been acquired is released, or ends with its lease.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	done := l.traceRequest(ctx)
	held, err := l.acquire(ctx, name, opts)
	done(held, err)
	return held, err
}

func (l *Locker) acquire(ctx context.Context, name string, opts []Option) (*Lock, error) {
	o, held, err := l.beginCall(ctx, name, opts)
	if held != nil || err != nil {
		return held, err
	}
	defer l.work.Done()
	req := newRequest(name, o.Lease)
	got, err := l.queues.waitTurn(ctx, l.closing, req)
	if err != nil {
		return nil, waitError(err)
	}
	if got.grant != nil {
		h, err := l.startHold(ctx, req, o, *got.grant, got.requestedAt)
		if err != nil {
			l.abandonTry(req)
			return nil, err
		}
		return h.firstLock(ctx), nil
	}
	for {
		h, err := l.tryBackend(ctx, req, o)
		if err == nil {
			return h.firstLock(ctx), nil
		}
		if errors.Is(err, ErrHeld) {
			if err = l.waitForRelease(ctx, req); err == nil {
				continue
			}
		}
		l.abandonTry(req)
		return nil, err
	}
}

// waitForRelease waits until it is worth trying again. If the context has ended, it returns the
// context's error.
func (l *Locker) waitForRelease(ctx context.Context, req Request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closing, func() { cancel(ErrClosed) })()
	var err error
	for range maxTries { // waiters should survive a failover of the server
		if err = l.backend.Wait(ctx, req); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return waitError(context.Cause(ctx))
		}
		if backoff.Pause(ctx, retryDelay(req.Lease)) != nil {
			return waitError(context.Cause(ctx))
		}
	}
	return err
}

// TryLock is like Lock but does not wait. It returns [ErrHeld] if another holder has the lock, or
// if another goroutine of this process is about to acquire it.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	done := l.traceRequest(ctx)
	held, err := l.tryAcquire(ctx, name, opts)
	done(held, err)
	return held, err
}

func (l *Locker) tryAcquire(ctx context.Context, name string, opts []Option) (*Lock, error) {
	o, held, err := l.beginCall(ctx, name, opts)
	if held != nil || err != nil {
		return held, err
	}
	defer l.work.Done()
	if !l.queues.tryTurn(name) {
		if err := l.queues.lastFailure(name); err != nil {
			return nil, err
		}
		return nil, ErrHeld
	}
	req := newRequest(name, o.Lease)
	h, err := l.tryBackend(ctx, req, o)
	switch {
	case err == nil:
		return h.firstLock(ctx), nil
	case errors.Is(err, ErrHeld):
		l.queues.passTurn(name)
	default:
		l.abandonTry(req)
	}
	return nil, err
}

// With runs fn while it holds the lock, and releases the lock also if fn panics. fn's context ends
// when the lock is lost. If it was lost, With returns fn's error joined with [ErrLost] or
// [ErrMaxHold], also if fn returned nil: another holder may have worked at the same time.
//
// If the server did not confirm the release, With returns no error for it: the work is done, and
// the lock ends with its lease.
func (l *Locker) With(ctx context.Context, name string, fn func(context.Context, *Lock) error, opts ...Option) (err error) {
	held, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	defer func() {
		if ended := held.Release(ctx); errors.Is(ended, ErrLost) || errors.Is(ended, ErrMaxHold) {
			err = errors.Join(err, ended)
		}
	}()
	return fn(held.Context(), held)
}

// Shutdown refuses new locks, ends all waits with [ErrClosed], and waits until all held locks are
// released. If ctx ends first, Shutdown ends the held locks with [ErrClosed], lets their leases
// expire, and returns the error of ctx.
func (l *Locker) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.closeWaiters(ErrClosed)
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
		h.endUnreleased(ErrClosed, false)
	}
	l.stop()
	return context.Cause(ctx)
}

// beginCall checks the arguments. If the context already has the lock, beginCall returns another
// Lock of it. Otherwise it adds the call to work.
func (l *Locker) beginCall(ctx context.Context, name string, opts []Option) (Options, *Lock, error) {
	if name == "" || len(name) > MaxName || strings.IndexByte(name, 0) >= 0 {
		return l.o, nil, ErrName
	}
	if err := ctx.Err(); err != nil {
		return l.o, nil, context.Cause(ctx)
	}
	if h := l.holdInContext(ctx, name); h != nil {
		if again, err := h.addLock(ctx); again != nil || err != nil {
			return l.o, again, err
		}
	}
	o := l.o
	if len(opts) > 0 {
		var err error
		if o, err = o.withCallOptions(opts); err != nil {
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

// maxTries is how often a call is made if its answer is lost. All calls are safe to repeat.
const maxTries = 3

// tryBackend calls the backend's TryLock, and again if the answer was lost.
func (l *Locker) tryBackend(ctx context.Context, req Request, o Options) (*hold, error) {
	var err error
	for range maxTries {
		began := time.Now()
		var g Grant
		if g, err = l.backend.TryLock(ctx, req); err == nil {
			l.queues.noteAnswer(req.Name, nil)
			return l.startHold(ctx, req, o, g, began)
		}
		if ctx.Err() == nil { // otherwise it says nothing about the server
			l.queues.noteAnswer(req.Name, err)
		}
		if errors.Is(err, ErrHeld) || errors.Is(err, ErrName) || ctx.Err() != nil || backoff.Pause(ctx, retryDelay(o.Lease)) != nil {
			break
		}
	}
	return nil, err
}

// startHold starts a hold for what the backend granted.
func (l *Locker) startHold(ctx context.Context, req Request, o Options, g Grant, began time.Time) (*hold, error) {
	h := &hold{locker: l, req: req, longestLease: g.Lease, grant: g, requestedAt: began}
	h.locks = h.firstLockSpace[:0]
	if t := l.o.Trace; t != nil && t.Ended != nil {
		h.traceCtx = context.WithoutCancel(ctx)
	}
	if h.grant.Lease <= 0 || h.grant.Lease > o.Lease {
		h.grant.Lease = o.Lease
	}
	h.heldUntil, h.maxHoldAt = began.Add(h.grant.Lease), began.Add(o.MaxHold)
	if !time.Now().Before(h.heldUntil) {
		return nil, fmt.Errorf("lock: the answer took longer than the lease of %v, so that the lock may be gone by now; choose a longer lease", o.Lease)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // shut down meanwhile; the caller releases the lock
		return nil, ErrClosed
	}
	l.holds[h] = struct{}{}
	l.work.Add(1)
	h.startHeartbeats()
	return h, nil
}

// removeHold undoes the registration that startHold made.
func (l *Locker) removeHold(h *hold) {
	l.mu.Lock()
	delete(l.holds, h)
	l.mu.Unlock()
	l.work.Done()
}

// abandonTry releases a lock that a try may have acquired, although the caller does not want it any
// more or may never get the answer, and passes the turn on. The caller counts in work.
func (l *Locker) abandonTry(req Request) {
	// Pass the turn at once: while the server is unreachable, each caller would wait for the
	// release of the one before.
	l.queues.passTurn(req.Name)
	l.work.Go(func() { _ = l.unlock(req) })
}

// releaseLock releases the lock on the backend, and passes the turn on. If another caller of this
// process waits, a backend that can gives it the lock in the same call.
func (l *Locker) releaseLock(req Request) error {
	var next *waiter
	if l.passer != nil {
		next = l.queues.removeNext(req.Name)
	}
	if next == nil {
		defer l.queues.passTurn(req.Name)
		return l.unlock(req)
	}
	got, err := l.passLock(req, next.req)
	if errors.Is(err, errors.ErrUnsupported) {
		err = l.unlock(req)
	}
	if !l.queues.giveTurn(next, got) {
		l.abandonTry(next.req)
	}
	return err
}

// unlock releases the lock on the backend and retries until it gets an answer, for a lease and at
// most ten seconds. If the first answer was lost and the second one is that there was nothing to
// release, it is unknown whether the first call released the lock or the lock was lost before. That
// is an error, and wraps [ErrLost].
func (l *Locker) unlock(req Request) error {
	ctx, cancel := l.unlockContext(req)
	defer cancel()
	for n := 1; ; n++ {
		err := l.backend.Unlock(ctx, req)
		if err == nil || isLastUnlock(ctx, req, err) {
			return unlockError(err, n)
		}
	}
}

// passLock is unlock for a lock that next gets. It returns next's turn.
func (l *Locker) passLock(req, next Request) (turn, error) {
	ctx, cancel := l.unlockContext(req)
	defer cancel()
	for n := 1; ; n++ {
		began := time.Now()
		g, err := l.passer.Pass(ctx, req, next)
		if err == nil {
			return turn{&g, began}, nil
		}
		if errors.Is(err, errors.ErrUnsupported) {
			return turn{}, err
		}
		if isLastUnlock(ctx, req, err) {
			return turn{requestedAt: began}, unlockError(err, n)
		}
	}
}

func (l *Locker) unlockContext(req Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.ctx, min(req.Lease, 10*time.Second))
}

// isLastUnlock reports whether to give up after an error. If not, it has waited for the next try.
func isLastUnlock(ctx context.Context, req Request, err error) bool {
	return errors.Is(err, ErrLost) || backoff.Pause(ctx, retryDelay(req.Lease)) != nil
}

// unlockError returns the error of a release whose try number n ended with err.
func unlockError(err error, n int) error {
	if errors.Is(err, ErrLost) && n > 1 {
		return fmt.Errorf("lock: the answer to the release was lost, and another holder has come since, after it or before: %w", ErrLost)
	}
	return err
}

func newRequest(name string, lease time.Duration) Request {
	r := Request{Name: name, Lease: lease}
	_, _ = rand.Read(r.Owner[:]) // never fails: it would end the process
	return r
}

// waitError returns the error of a caller that waited in vain.
func waitError(cause error) error { return fmt.Errorf("%w (%w)", ErrHeld, cause) }

// retryDelay returns the time between two tries.
func retryDelay(lease time.Duration) time.Duration { return min(lease/100, 100*time.Millisecond) }
