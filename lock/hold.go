package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// hold is a name that one owner holds, for one [Lock] or for several of one context. It sends the
// heartbeats.
type hold struct {
	locker *Locker
	req    Request
	most   time.Duration // the longest lease, if the backend has a limit; else zero
	grant  Grant
	began  time.Time       // when it was requested
	asker  context.Context // for Trace.Ended; nil if there is none

	mu        sync.Mutex
	locks     []*Lock
	space     [1]*Lock  // backs locks, to save an allocation
	until     time.Time // certainly held until then, by this process's clock
	boundAt   time.Time
	beatAt    time.Time // of the next heartbeat
	extending bool      // a heartbeat is in flight
	timer     *time.Timer
	done      chan struct{} // closed at the end; nil until a caller asks for it
	open      int           // locks that are not released, also after the end
	idle      chan struct{} // closed when open is zero after a loss
	cause     error         // why the hold ended
}

// start starts the heartbeats.
func (h *hold) start() {
	h.mu.Lock() // the timer may fire at once, for a very short lease
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

// tick does what is due: it ends the hold if the lease or MaxHold is over, or sends a heartbeat.
// The heartbeat has its own goroutine, so that a backend that hangs does not delay the end.
func (h *hold) tick() {
	h.mu.Lock()
	now := time.Now()
	var cause error
	switch {
	case h.cause != nil:
	case !h.until.After(now):
		cause = ErrLost
	case !h.boundAt.After(now):
		cause = ErrMaxHold
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

// wake sets the timer for the next event. The caller holds the mutex.
func (h *hold) wake() {
	if h.cause == nil {
		h.timer.Reset(time.Until(h.next()))
	}
}

// next returns the time of the next event: a heartbeat, or the end if nothing happens before it.
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

// heartbeat extends the lease. After an error it tries again soon, until the lease is over.
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

// extend asks for a lease that starts now. The call may take a third of a lease, so that there is
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
	if h.most > 0 { // a session's limit, which Extend cannot raise
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

// ended returns why the hold ended, or nil while it is held. It also checks the time, because a
// holder that was paused may ask before the timer fires.
func (h *hold) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endedNow()
}

// endedNow is ended for a caller that holds the mutex.
func (h *hold) endedNow() error {
	if h.cause == nil && !h.until.After(time.Now()) {
		return ErrLost
	}
	return h.cause
}

// end finishes the hold and passes the turn on, for every cause except a release. A goroutine then
// unlocks it on the server. If the server knows that the lock is gone, it does so at once.
// Otherwise it waits until the lease is over or all holders have released the lock, since a holder
// that has just been notified may be in the middle of a write.
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
	h.over(cause)
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

// finish notifies the holders. Only the first cause counts; finish reports whether this was the
// first. The caller holds the mutex.
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
