package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Lock is a lock that is held, until Release or until it is lost. It is safe for concurrent use.
type Lock struct {
	hold     *hold
	outer    *Lock // the next one outwards in the context, of any name
	ctx      context.Context
	cancel   context.CancelCauseFunc
	released bool // under the hold's mutex
}

// lock makes the first Lock of a hold.
func (h *hold) lock(ctx context.Context) *Lock {
	l, _ := h.again(ctx)
	if l == nil { // lost before anybody could use it
		l = &Lock{hold: h}
		l.ctx, l.cancel = context.WithCancelCause(ctx)
		l.cancel(h.ended())
	}
	return l
}

// again makes a Lock of a hold; nil and no error: it was released before, and has to be taken anew.
func (h *hold) again(ctx context.Context) (*Lock, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case errors.Is(h.cause, ErrReleased):
		return nil, nil
	case h.endedNow() != nil:
		return nil, h.endedNow()
	}
	l := &Lock{hold: h}
	l.outer, _ = ctx.Value(heldKey{h.locker}).(*Lock)
	l.ctx, l.cancel = context.WithCancelCause(context.WithValue(ctx, heldKey{h.locker}, l))
	h.locks = append(h.locks, l)
	h.open++
	return l, nil
}

// heldKey is under which a context has the innermost of a locker's locks.
type heldKey struct{ *Locker }

// inside is the hold of that name that the context comes from, or nil.
func (l *Locker) inside(ctx context.Context, name string) *hold {
	held, _ := ctx.Value(heldKey{l}).(*Lock)
	for ; held != nil; held = held.outer {
		if held.hold.req.Name == name {
			return held.hold
		}
	}
	return nil
}

// Fence is greater than that of any holder of this name before. Give it to each write, so that the
// resource can refuse those of a holder that does not know yet that it has lost the lock:
// guard.Fence does that for a row of a database.
func (l *Lock) Fence() retrysafe.Fence { return l.hold.grant.Fence }

// Context comes from the one that the lock was asked with, and ends with the lock: its cause is
// [ErrLost], [ErrBound], [ErrClosed] or, behind Release, [ErrReleased]. A lock of the same name and
// locker that is asked for inside of it is this one.
func (l *Lock) Context() context.Context { return l.ctx }

// Done is closed when the lock is lost, or released by all that hold it in one context; Err tells
// which. A holder that runs is told no later than a lease after the server last knew of it. One
// that is paused is told when it wakes: there is no way to tell it before, and where the whole
// machine sleeps its clock may sleep too. What it writes in between is for the fence to refuse.
func (l *Lock) Done() <-chan struct{} { return l.hold.doneChan() }

// Err is why the lock has ended; nil while it is held. Causes are those of Context.
func (l *Lock) Err() error { return l.hold.ended() }

// Extend holds the lock for d from now at least, without any heartbeat, also beyond MaxHold; d
// counts from the server's answer, and up to 24 h. It is for a stretch of work in which this
// process cannot be relied on to send heartbeats, and for a holder that shows that it goes on. A
// backend whose locks end with a session keeps the session's time, and only MaxHold moves.
//
// Errors: the cause of the end where it has ended; those of the backend, after which this process
// counts on the lease that it had, and the server may have given the longer one: a crash blocks the
// name for as long then.
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
	if bound := time.Now().Add(d); h.cause == nil && bound.After(h.boundAt) {
		h.boundAt = bound
		h.wake()
	}
	return h.cause
}

// Release ends the lock; of one that is held several times in one context, the last Release does.
// It goes on when ctx has ended, for a lease and ten seconds at most. A second call of the same
// Lock does nothing, and returns nil.
//
// Errors: [ErrLost], [ErrBound] or [ErrClosed] where it was lost before, so that the caller can
// tell what was done beside it; those of the backend where the server did not confirm, and the lock
// ends with its lease.
func (l *Lock) Release(_ context.Context) error {
	h := l.hold
	h.mu.Lock()
	if l.released {
		h.mu.Unlock()
		return nil
	}
	l.released = true
	h.open--
	for i, other := range h.locks {
		if other == l {
			h.locks = append(h.locks[:i], h.locks[i+1:]...)
			break
		}
	}
	cause, last := h.cause, false
	switch {
	case h.open > 0:
	case cause == nil:
		last = h.finish(ErrReleased)
	case h.idle != nil:
		close(h.idle)
		h.idle = nil
	}
	h.mu.Unlock()
	l.cancel(ErrReleased)
	if !last {
		return cause
	}
	defer h.locker.forget(h)
	defer h.locker.turns.pass(h.req.Name)
	return h.locker.unlock(h.req)
}
