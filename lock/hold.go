package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/backoff"
)

// hold is what one owner has: a name, for one [Lock] or for several of one context. It sends the heartbeats.
type hold struct {
	locker *Locker
	req    Request
	most   time.Duration // a lease can be, where the backend has said so; else zero
	grant  Grant
	began  time.Time
	done   chan struct{} // closed at the end

	mu       sync.Mutex
	locks    []*Lock
	until    time.Time // it is surely held, by this process's clock
	boundAt  time.Time
	beat     *time.Timer
	deadline *time.Timer
	cause    error // of the end
}

// heldKey is under which a context has its hold.
type heldKey struct {
	locker *Locker
	name   string
}

// start begins the heartbeats.
func (h *hold) start() {
	h.mu.Lock() // for a lease that is over at once
	defer h.mu.Unlock()
	h.beat = time.AfterFunc(h.grant.Lease/3, h.heartbeat)
	h.deadline = time.AfterFunc(time.Until(h.due()), h.overdue)
	if h.grant.Done != nil {
		h.locker.work.Go(func() {
			select {
			case <-h.grant.Done:
				h.end(ErrLost)
			case <-h.done:
			}
		})
	}
}

// due is when the holder is told that it is over, if nothing else happens.
func (h *hold) due() time.Time {
	if h.boundAt.Before(h.until) {
		return h.boundAt
	}
	return h.until
}

// overdue ends a hold whose time is over: its lease, or what it may be held at most. The deadline may have moved since the timer went off.
func (h *hold) overdue() {
	h.mu.Lock()
	if h.cause != nil {
		h.mu.Unlock()
		return
	}
	now := time.Now()
	cause := ErrLost
	switch {
	case h.due().After(now):
		h.deadline.Reset(h.due().Sub(now))
		h.mu.Unlock()
		return
	case h.until.After(now):
		cause = ErrBound
	}
	h.mu.Unlock()
	h.end(cause)
}

// heartbeat extends the lease. What fails is tried again soon, until the lease is over.
func (h *hold) heartbeat() {
	next := h.grant.Lease / 10
	if err := h.extend(h.locker.ctx, h.grant.Lease); err == nil {
		next = h.grant.Lease / 3
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.beat.Reset(next)
	}
}

// extend asks for a lease from now on, for as long as it may take: a third of one, so that there is time for another try.
func (h *hold) extend(ctx context.Context, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, h.grant.Lease/3)
	defer cancel()
	req := h.req
	req.Lease = max(lease, h.req.Lease)
	began := time.Now()
	err := h.locker.backend.Extend(ctx, req)
	switch {
	case errors.Is(err, ErrLost):
		h.end(ErrLost)
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
		h.deadline.Reset(time.Until(h.due()))
	}
	return h.cause
}

// ended is why it ended; nil while it has not.
func (h *hold) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// end is finish and what comes behind it, for all causes but the release. What the server has of it is given back apart from that, when the lease is
// over: until then a holder that was just told may be in the midst of a write.
func (h *hold) end(cause error) {
	h.mu.Lock()
	left, first := time.Until(h.until), h.finish(cause)
	h.mu.Unlock()
	if !first {
		return
	}
	l := h.locker
	l.turns.pass(h.req.Name)
	go func() {
		defer l.forget(h)
		if backoff.Pause(l.ctx, left) == nil {
			_ = l.unlock(h.req)
		}
	}()
}

// finish tells the holders. It is the first cause that counts; false: there was one before. The mutex is held.
func (h *hold) finish(cause error) (first bool) {
	if h.cause != nil {
		return false
	}
	h.cause = cause
	h.beat.Stop()
	h.deadline.Stop()
	close(h.done)
	for _, l := range h.locks {
		l.cancel(cause)
	}
	h.locks = nil
	return true
}
