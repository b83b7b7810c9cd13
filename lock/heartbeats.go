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
	locker       *Locker
	req          Request
	longestLease time.Duration // the longest lease, if the backend has a limit; else zero
	grant        Grant
	requestedAt  time.Time       // when it was requested
	traceCtx     context.Context // for Trace.Ended; nil if there is none

	mu             sync.Mutex
	locks          []*Lock
	firstLockSpace [1]*Lock  // backs locks, to save an allocation
	heldUntil      time.Time // certainly held until then, by this process's clock
	maxHoldAt      time.Time
	heartbeatAt    time.Time // of the next heartbeat
	extending      bool      // a heartbeat is in flight
	timer          *time.Timer
	done           chan struct{} // closed at the end; nil until a caller asks for it
	unreleased     int           // locks that are not released, also after the end
	allReleased    chan struct{} // closed when unreleased is zero after a loss
	cause          error         // why the hold ended
}

// startHeartbeats starts the heartbeats.
func (h *hold) startHeartbeats() {
	h.mu.Lock() // the timer may fire at once, for a very short lease
	h.heartbeatAt = time.Now().Add(h.grant.Lease / 3)
	h.timer = time.AfterFunc(time.Until(h.nextEvent()), h.handleTimer)
	h.mu.Unlock()
	if h.grant.Done != nil {
		done := h.doneChan()
		h.locker.work.Go(func() {
			select {
			case <-h.grant.Done:
				h.endUnreleased(ErrLost, true)
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

// handleTimer does what is due: it ends the hold if the lease or MaxHold is over, or sends a
// heartbeat. The heartbeat has its own goroutine, so that a backend that hangs does not delay the
// end.
func (h *hold) handleTimer() {
	h.mu.Lock()
	now := time.Now()
	var cause error
	switch {
	case h.cause != nil:
	case !h.heldUntil.After(now):
		cause = ErrLost
	case !h.maxHoldAt.After(now):
		cause = ErrMaxHold
	case !h.extending && !h.heartbeatAt.After(now):
		h.extending = true
		go h.sendHeartbeat()
	}
	h.resetTimer()
	h.mu.Unlock()
	if cause != nil {
		h.endUnreleased(cause, false)
	}
}

// resetTimer sets the timer for the next event. The caller holds the mutex.
func (h *hold) resetTimer() {
	if h.cause == nil {
		h.timer.Reset(time.Until(h.nextEvent()))
	}
}

// nextEvent returns the time of the next event: a heartbeat, or the end if nothing happens before
// it.
func (h *hold) nextEvent() time.Time {
	next := h.heldUntil
	if h.maxHoldAt.Before(next) {
		next = h.maxHoldAt
	}
	if !h.extending && h.heartbeatAt.Before(next) {
		next = h.heartbeatAt
	}
	return next
}

// sendHeartbeat extends the lease. After an error it tries again soon, until the lease is over.
func (h *hold) sendHeartbeat() {
	next := h.grant.Lease / 10
	if err := h.extend(h.locker.ctx, h.grant.Lease); err == nil {
		next = h.grant.Lease / 3
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extending = false
	h.heartbeatAt = time.Now().Add(next)
	h.resetTimer()
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
		h.endUnreleased(ErrLost, true)
		return h.endCause()
	case err != nil:
		return err
	}
	lease = req.Lease
	if h.longestLease > 0 { // a session's limit, which Extend cannot raise
		lease = min(lease, h.longestLease)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := began.Add(lease); h.cause == nil && until.After(h.heldUntil) {
		h.heldUntil = until
		h.resetTimer()
	}
	return h.cause
}

// endCause returns why the hold ended, or nil while it is held. It also checks the time, because a
// holder that was paused may ask before the timer fires.
func (h *hold) endCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endCauseLocked()
}

// endCauseLocked is endCause for a caller that holds the mutex.
func (h *hold) endCauseLocked() error {
	if h.cause == nil && !h.heldUntil.After(time.Now()) {
		return ErrLost
	}
	return h.cause
}

// endUnreleased finishes the hold and passes the turn on, for every cause except a release. A
// goroutine then unlocks it on the server. If the server knows that the lock is gone, it does so at
// once. Otherwise it waits until the lease is over or all holders have released the lock, since a
// holder that has just been notified may be in the middle of a write.
func (h *hold) endUnreleased(cause error, gone bool) {
	h.mu.Lock()
	left := time.Until(h.heldUntil)
	if !h.markEnded(cause) {
		h.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	h.allReleased = idle
	if gone || h.unreleased == 0 {
		left = 0
	}
	h.mu.Unlock()
	h.traceEnd(cause)
	l := h.locker
	l.queues.passTurn(h.req.Name)
	go func() {
		defer l.removeHold(h)
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

// markEnded notifies the holders. Only the first cause counts; markEnded reports whether this was
// the first. The caller holds the mutex.
func (h *hold) markEnded(cause error) (first bool) {
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
