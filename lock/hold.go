package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// hold is what one owner has: a name, for one [Lock] or for several of one context. It sends the
// heartbeats.
type hold struct {
	locker *Locker
	req    Request
	most   time.Duration // a lease can be, where the backend has said so; else zero
	grant  Grant

	mu        sync.Mutex
	locks     []*Lock
	space     [1]*Lock  // of locks
	until     time.Time // it is surely held, by this process's clock
	boundAt   time.Time
	beatAt    time.Time // of the next heartbeat
	extending bool      // one is on its way
	timer     *time.Timer
	done      chan struct{} // closed at the end; nil: nobody has asked for it
	open      int           // locks that are not released, also behind the end
	idle      chan struct{} // closed when there are none, behind a loss
	cause     error         // of the end
}

// start begins the heartbeats.
func (h *hold) start() {
	h.mu.Lock() // for a lease that is over at once
	h.beatAt = time.Now().Add(h.grant.Lease / 3)
	h.timer = time.AfterFunc(time.Until(h.next()), h.tick)
	h.mu.Unlock()
	if h.grant.Done != nil {
		done := h.doneChan()
		h.locker.work.Go(func() {
			select {
			case <-h.grant.Done:
				h.end(ErrLost, true)
			case <-done:
			}
		})
	}
}

func (h *hold) doneChan() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		h.done = make(chan struct{})
		if h.cause != nil {
			close(h.done)
		}
	}
	return h.done
}

// tick does what is due: it ends a hold whose time is over, its lease or what it may be held at
// most, or sends a heartbeat. That runs apart, so that a backend that hangs does not delay the end.
func (h *hold) tick() {
	h.mu.Lock()
	now := time.Now()
	var cause error
	switch {
	case h.cause != nil:
	case !h.until.After(now):
		cause = ErrLost
	case !h.boundAt.After(now):
		cause = ErrBound
	case !h.extending && !h.beatAt.After(now):
		h.extending = true
		go h.heartbeat()
	}
	h.wake()
	h.mu.Unlock()
	if cause != nil {
		h.end(cause, false)
	}
}

// wake sets the timer for what comes next. The mutex is held.
func (h *hold) wake() {
	if h.cause == nil {
		h.timer.Reset(time.Until(h.next()))
	}
}

// next is when the next thing is to be done: a heartbeat, or the end if nothing else happens.
func (h *hold) next() time.Time {
	next := h.until
	if h.boundAt.Before(next) {
		next = h.boundAt
	}
	if !h.extending && h.beatAt.Before(next) {
		next = h.beatAt
	}
	return next
}

// heartbeat extends the lease. What fails is tried again soon, until the lease is over.
func (h *hold) heartbeat() {
	next := h.grant.Lease / 10
	if err := h.extend(h.locker.ctx, h.grant.Lease); err == nil {
		next = h.grant.Lease / 3
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extending = false
	h.beatAt = time.Now().Add(next)
	h.wake()
}

// extend asks for a lease from now on, for as long as it may take: a third of one, so that there is
// time for another try.
func (h *hold) extend(ctx context.Context, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, h.grant.Lease/3)
	defer cancel()
	req := h.req
	req.Lease = max(lease, h.req.Lease)
	began := time.Now()
	err := h.locker.backend.Extend(ctx, req)
	switch {
	case errors.Is(err, ErrLost):
		h.end(ErrLost, true)
		return h.ended()
	case err != nil:
		return err
	}
	lease = req.Lease
	if h.most > 0 { // a session's, which is not longer because we wish
		lease = min(lease, h.most)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := began.Add(lease); h.cause == nil && until.After(h.until) {
		h.until = until
		h.wake()
	}
	return h.cause
}

// ended is why it ended; nil while it is held. A holder that was paused may ask before the timer
// has gone off.
func (h *hold) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endedNow()
}

// endedNow is ended with the mutex held.
func (h *hold) endedNow() error {
	if h.cause == nil && !h.until.After(time.Now()) {
		return ErrLost
	}
	return h.cause
}

// end is finish and what comes behind it, for all causes but the release. What the server has of it
// is given back apart from that: when the lease is over or all holders have released it, since one
// that was just told may be in the midst of a write; at once where the server knows that it is
// gone.
func (h *hold) end(cause error, gone bool) {
	h.mu.Lock()
	left := time.Until(h.until)
	if !h.finish(cause) {
		h.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	h.idle = idle
	if gone || h.open == 0 {
		left = 0
	}
	h.mu.Unlock()
	l := h.locker
	l.turns.pass(h.req.Name)
	go func() {
		defer l.forget(h)
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-idle:
		case <-l.ctx.Done():
			return
		}
		_ = l.unlock(h.req)
	}()
}

// finish tells the holders. It is the first cause that counts; false: there was one before. The
// mutex is held.
func (h *hold) finish(cause error) (first bool) {
	if h.cause != nil {
		return false
	}
	h.cause = cause
	h.timer.Stop()
	if h.done != nil {
		close(h.done)
	}
	for _, l := range h.locks {
		l.cancel(cause)
	}
	h.locks = nil
	return true
}
