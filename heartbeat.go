package retrysafe

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// heartbeat extends the leases of all live attempts of an engine, and ends their contexts in time.
// One goroutine keeps the times. It runs only while attempts are live, and sleeps until the first
// is due, so an attempt that ends within a third of its lease costs neither a timer nor a
// goroutine. The Extend calls run in goroutines of their own, so that a store that hangs does not
// delay the end of a context.
type heartbeat struct {
	rt   *runtime
	kick chan struct{}

	mu      sync.Mutex
	queue   attemptQueue // ordered by next
	running bool
	wakeAt  time.Time
	stopped bool
}

// add starts the heartbeats of a. It returns false, and does not, once the engine has been stopped.
func (h *heartbeat) add(a *Attempt) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		a.index = -1
		return false
	}
	a.next = a.due()
	heap.Push(&h.queue, a)
	switch {
	case !h.running:
		h.running = h.rt.background.start(h.run)
	case a.next.Before(h.wakeAt):
		h.wake()
	}
	return true
}

func (h *heartbeat) wake() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// remove ends the heartbeats of a, which is in the queue or was lost before.
func (h *heartbeat) remove(a *Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.index >= 0 && a.index < len(h.queue) && h.queue[a.index] == a {
		heap.Remove(&h.queue, a.index)
	}
}

// stopAll ends the contexts of all live attempts. Their leases expire.
func (h *heartbeat) stopAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for _, a := range h.queue {
		a.index = -1
		a.lose(ErrClosed)
	}
	h.queue = nil
	h.wake()
}

// due returns when the heartbeat next has to act for a.
func (a *Attempt) due() time.Time {
	next := a.until
	if a.boundAt.Before(next) {
		next = a.boundAt
	}
	if !a.extending && a.beatAt.Before(next) {
		next = a.beatAt
	}
	return next
}

// lose ends the attempt's context. From now on the attempt is released only if the work itself
// returns NothingDone. The caller must hold the heartbeat's lock.
func (a *Attempt) lose(cause error) {
	a.lost.Store(true)
	a.cancel(cause)
	if t := a.rt.trace.Lost; t != nil && !a.ended.Load() {
		// No report after a finishing call has begun: it may have arrived although its reply has
		// not. The report has its own goroutine, since the lock is held and the function is the
		// user's.
		a.rt.background.start(func() { t(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.n, Err: cause}) })
	}
}

func (h *heartbeat) run() {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		next, more := h.tick(time.Now())
		if !more {
			return
		}
		t.Reset(time.Until(next))
		select {
		case <-t.C:
		case <-h.kick:
		case <-h.rt.ctx.Done():
			// Shutdown: every attempt has ended, or its context has. Nothing is left to look after.
			h.mu.Lock()
			defer h.mu.Unlock()
			h.running = false
			return
		}
	}
}

// tick does what is due and returns when to call it again. more is false if no attempt is live.
func (h *heartbeat) tick(now time.Time) (next time.Time, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.queue) > 0 && !h.queue[0].next.After(now) {
		a := h.queue[0]
		switch {
		case !a.boundAt.After(now):
			heap.Pop(&h.queue)
			a.lose(ErrMaxRun)
		case !a.until.After(now):
			heap.Pop(&h.queue)
			a.lose(ErrLeaseLost)
		default:
			a.extending = true // also if the engine has ended and no call is made
			h.rt.background.start(func() { h.extend(a, now) })
			h.moved(a)
		}
	}
	if len(h.queue) == 0 {
		h.running = false
		return time.Time{}, false
	}
	h.wakeAt = h.queue[0].next
	return h.wakeAt, true
}

// moved moves a to its place in the queue after its times have changed.
func (h *heartbeat) moved(a *Attempt) {
	a.next = a.due()
	heap.Fix(&h.queue, a.index)
}

// extend extends the lease of a, and sets the time of the next heartbeat.
func (h *heartbeat) extend(a *Attempt, sent time.Time) {
	err := h.call(h.rt.ctx, a, sent, storeapi.ExtendRequest{})
	h.mu.Lock()
	defer h.mu.Unlock()
	a.extending = false
	if a.index < 0 {
		return // ended or lost meanwhile
	}
	if err != nil {
		a.beatAt = time.Now().Add(min(a.policy.Lease/20, time.Second))
	}
	h.moved(a)
	h.wake()
}

// call makes one Extend call and applies its result. The new lease counts from when the call was
// sent, since the store counts from then or later. more has what the call asks for besides the
// lease.
func (h *heartbeat) call(ctx context.Context, a *Attempt, sent time.Time, more storeapi.ExtendRequest) error {
	lease := a.policy.Lease
	more.Key, more.Owner, more.Fence, more.Lease = a.key, a.owner, a.fence, lease
	h.mu.Lock()
	until := a.until
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(time.Until(until), 0))
	defer cancel()
	done := h.rt.trace.store(&a.ctx, "extend")
	err := h.rt.store.Extend(ctx, more)
	done.with(err)

	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case a.index < 0: // ended or lost meanwhile
	case err == nil:
		if end := sent.Add(lease - lease/10); end.After(a.until) {
			// Of two calls the later one counts.
			a.until, a.beatAt = end, sent.Add(lease/3)
		}
	case errors.Is(err, ErrLeaseLost):
		heap.Remove(&h.queue, a.index)
		a.lose(ErrLeaseLost)
	}
	return err
}

// attemptQueue is a heap of live attempts.
type attemptQueue []*Attempt

func (q attemptQueue) Len() int           { return len(q) }
func (q attemptQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q attemptQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *attemptQueue) Push(x any) {
	a := x.(*Attempt) //nolint:errcheck // heap.Push is only called by add
	a.index = len(*q)
	*q = append(*q, a)
}

func (q *attemptQueue) Pop() any {
	old := *q
	last := len(old) - 1
	a := old[last]
	old[last] = nil
	a.index = -1
	*q = old[:last]
	return a
}
