package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Lock is a held lock, until Release or until it is lost. It is safe for concurrent use.
type Lock struct {
	hold     *hold
	outer    *Lock // the next outer lock in the context, of any name
	ctx      context.Context
	cancel   context.CancelCauseFunc
	released bool // under the hold's mutex
}

// firstLock returns the first Lock of a hold.
func (h *hold) firstLock(ctx context.Context) *Lock {
	l, _ := h.addLock(ctx)
	if l == nil { // it was lost before any caller could use it
		l = &Lock{hold: h}
		l.ctx, l.cancel = context.WithCancelCause(ctx)
		l.cancel(h.endCause())
	}
	return l
}

// addLock returns another Lock of a hold. It returns nil and no error if the hold was released
// before and must be acquired again.
func (h *hold) addLock(ctx context.Context) (*Lock, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case errors.Is(h.cause, ErrReleased):
		return nil, nil
	case h.endCauseLocked() != nil:
		return nil, h.endCauseLocked()
	}
	l := &Lock{hold: h}
	l.outer, _ = ctx.Value(heldKey{h.locker}).(*Lock)
	l.ctx, l.cancel = context.WithCancelCause(context.WithValue(ctx, heldKey{h.locker}, l))
	h.locks = append(h.locks, l)
	h.unreleased++
	return l, nil
}

// heldKey is the context key of the innermost lock of a locker.
type heldKey struct{ *Locker }

// holdInContext returns the hold of that name from which the context comes, or nil.
func (l *Locker) holdInContext(ctx context.Context, name string) *hold {
	held, _ := ctx.Value(heldKey{l}).(*Lock)
	for ; held != nil; held = held.outer {
		if held.hold.req.Name == name {
			return held.hold
		}
	}
	return nil
}

// Fence returns a number that is greater than that of any earlier holder of this name. Send it with
// each write, so that the resource can refuse the writes of a holder that does not know yet that it
// has lost the lock. guard.Fence does that for a row of a database.
func (l *Lock) Fence() retrysafe.Fence { return l.hold.grant.Fence }

// Context returns a context that is derived from the one that the lock was requested with. It ends
// with the lock. Its cause is [ErrLost], [ErrMaxHold], [ErrClosed] or, after Release,
// [ErrReleased]. A request in this context for the same name on the same locker returns this lock.
func (l *Lock) Context() context.Context { return l.ctx }

// Done returns a channel that is closed when the lock is lost, or when all holders in one context
// have released it; Err says which. A holder that runs is notified no later than a lease after the
// server last confirmed it. A paused holder is notified when it wakes: that cannot happen earlier,
// and if the whole machine sleeps, its clock may sleep too. The fence must refuse what such a
// holder writes.
func (l *Lock) Done() <-chan struct{} { return l.hold.doneChan() }

// Err returns why the lock has ended, or nil while it is held. The causes are those of Context.
func (l *Lock) Err() error { return l.hold.endCause() }

// Extend holds the lock for at least d from now, without any heartbeat, also beyond MaxHold. d
// counts from the server's answer and is at most 24 h. Use it before work during which this process
// may be unable to send heartbeats, or from a holder that shows that it makes progress. A backend
// whose locks end with a session keeps the session's time; then only MaxHold moves.
//
// Errors: the cause if the lock has ended; those of the backend. After an error of the backend this
// process counts on the lease that it had before, but the server may have granted the longer one.
// Then a crash blocks the name for that long.
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	h := l.hold
	if d <= 0 || d > 24*time.Hour {
		return fmt.Errorf("lock: Extend got %v; give it a time from now, up to 24 h", d)
	}
	if err := h.extend(ctx, d); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if bound := time.Now().Add(d); h.cause == nil && bound.After(h.maxHoldAt) {
		h.maxHoldAt = bound
		h.resetTimer()
	}
	return h.cause
}

// Release ends the lock. If it is held several times in one context, the last Release ends it.
// Release continues after ctx has ended, for at most a lease and ten seconds. A second call on the
// same Lock does nothing and returns nil.
//
// Errors: [ErrLost], [ErrMaxHold] or [ErrClosed] if the lock was lost before, so another holder may
// have worked at the same time; those of the backend if the server did not confirm, and then the
// lock ends with its lease.
func (l *Lock) Release(_ context.Context) error {
	h := l.hold
	h.mu.Lock()
	if l.released {
		h.mu.Unlock()
		return nil
	}
	l.released = true
	h.unreleased--
	for i, other := range h.locks {
		if other == l {
			h.locks = append(h.locks[:i], h.locks[i+1:]...)
			break
		}
	}
	cause, last := h.cause, false
	switch {
	case h.unreleased > 0:
	case cause == nil:
		last = h.markEnded(ErrReleased)
	case h.allReleased != nil:
		close(h.allReleased)
		h.allReleased = nil
	}
	h.mu.Unlock()
	l.cancel(ErrReleased)
	if !last {
		return cause
	}
	h.traceEnd(ErrReleased)
	defer h.locker.removeHold(h)
	return h.locker.releaseLock(h.req)
}
