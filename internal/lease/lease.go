// Package lease keeps the leases of an engine's live attempts: heartbeats extend them, and an
// attempt whose lease was lost ends in time.
package lease

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ErrMaxRun means that an attempt ran longer than its policy allows.
var ErrMaxRun = errors.New("the attempt ran longer than MaxRun")

// Holder is the attempt that has a lease.
type Holder interface {
	// StopWork ends the work: its lease was lost ([storeapi.ErrLeaseLost]), its time is over
	// ([ErrMaxRun]), or the engine ends. It is called once at most, under the keeper's lock, so it
	// must not block.
	StopWork(cause error)
}

// Lease is the lease of one attempt. Only the methods of a [Keeper] use it after Add.
type Lease struct {
	key    *storeapi.StoreKey
	owner  storeapi.Owner
	fence  storeapi.Fence
	length time.Duration
	holder Holder
	work   context.Context // for the trace

	heldUntil, beatAt, boundAt time.Time
	extending                  bool
	next                       time.Time // when the keeper has to act
	index                      int       // in the queue; -1: ended or lost
}

// Start sets the lease of a claim that was sent at sent. The key must not change. It is believed in
// for nine tenths of its length from then on, and heartbeats go on for maxRun. work is the context
// of the work, for the trace.
func (l *Lease) Start(key *storeapi.StoreKey, owner storeapi.Owner, fence storeapi.Fence, length, maxRun time.Duration, sent time.Time, work context.Context, holder Holder) { //nolint:revive // ctx is not for a call
	l.key, l.owner, l.fence, l.length, l.holder, l.work = key, owner, fence, length, holder, work
	l.heldUntil = sent.Add(length - length/10)
	l.beatAt = sent.Add(length / 3)
	l.boundAt = sent.Add(maxRun)
}

// Expired reports whether the lease is over before it was kept at all.
func (l *Lease) Expired() bool { return !time.Now().Before(l.heldUntil) }

// Bound returns when heartbeats end.
func (l *Lease) Bound() time.Time { return l.boundAt }

// nextAction returns when the keeper next has to act for l.
func (l *Lease) nextAction() time.Time {
	next := l.heldUntil
	if l.boundAt.Before(next) {
		next = l.boundAt
	}
	if !l.extending && l.beatAt.Before(next) {
		next = l.beatAt
	}
	return next
}

// Keeper extends the leases of all live attempts of an engine, and ends their work in time. One
// goroutine keeps the times. It runs only while attempts are live, and sleeps until the first is
// due, so an attempt that ends within a third of its lease costs neither a timer nor a goroutine.
// The Extend calls run in goroutines of their own, so that a store that hangs does not delay the
// end of the work.
type Keeper struct {
	store   *storecall.Store
	life    *lifetime.Life
	wakeups chan struct{}

	mu      sync.Mutex
	queue   queue // ordered by next
	running bool
	wakeAt  time.Time
	stopped bool
}

// New returns a Keeper.
func New(store *storecall.Store, life *lifetime.Life) *Keeper {
	return &Keeper{store: store, life: life, wakeups: make(chan struct{}, 1)}
}

// Add starts the heartbeats of l. It returns false, and does not, once the keeper has been stopped.
func (k *Keeper) Add(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		l.index = -1
		return false
	}
	l.next = l.nextAction()
	heap.Push(&k.queue, l)
	switch {
	case !k.running:
		k.running = k.life.Go(k.run)
	case l.next.Before(k.wakeAt):
		k.wake()
	}
	return true
}

// Remove ends the heartbeats of l, which may be lost already.
func (k *Keeper) Remove(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 && l.index < len(k.queue) && k.queue[l.index] == l {
		heap.Remove(&k.queue, l.index)
	}
}

// Stop ends the work of all live attempts. Their leases expire.
func (k *Keeper) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	for _, l := range k.queue {
		l.index = -1
		l.holder.StopWork(lifetime.ErrClosed)
	}
	k.queue = nil
	k.wake()
}

// TimeLeft returns how long the lease is believed in without a further reply of the store; zero if
// it has ended or was lost.
func (k *Keeper) TimeLeft(l *Lease) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return 0
	}
	return max(time.Until(l.heldUntil), 0)
}

// Extend renews the lease now, once. more has what the call asks for besides the lease.
func (k *Keeper) Extend(ctx context.Context, l *Lease, more storeapi.ExtendRequest) error {
	k.mu.Lock()
	live := l.index >= 0
	k.mu.Unlock()
	if !live {
		return storeapi.ErrLeaseLost
	}
	if err := k.callExtend(ctx, l, time.Now(), more); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		k.reorder(l)
	}
	return nil
}

func (k *Keeper) wake() {
	select {
	case k.wakeups <- struct{}{}:
	default:
	}
}

func (k *Keeper) run() {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		next, more := k.handleDue(time.Now())
		if !more {
			return
		}
		t.Reset(time.Until(next))
		select {
		case <-t.C:
		case <-k.wakeups:
		case <-k.life.Context().Done():
			// Shutdown: every attempt has ended, or its context has. Nothing is left to look after.
			k.mu.Lock()
			defer k.mu.Unlock()
			k.running = false
			return
		}
	}
}

// handleDue does what is due and returns when to call it again. more is false if no attempt is
// live.
func (k *Keeper) handleDue(now time.Time) (next time.Time, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.queue) > 0 && !k.queue[0].next.After(now) {
		l := k.queue[0]
		switch {
		case !l.boundAt.After(now):
			heap.Pop(&k.queue)
			l.holder.StopWork(ErrMaxRun)
		case !l.heldUntil.After(now):
			heap.Pop(&k.queue)
			l.holder.StopWork(storeapi.ErrLeaseLost)
		default:
			l.extending = true // also if the engine has ended and no call is made
			k.life.Go(func() { k.sendHeartbeat(l, now) })
			k.reorder(l)
		}
	}
	if len(k.queue) == 0 {
		k.running = false
		return time.Time{}, false
	}
	k.wakeAt = k.queue[0].next
	return k.wakeAt, true
}

// reorder moves l to its place in the queue after its times have changed.
func (k *Keeper) reorder(l *Lease) {
	l.next = l.nextAction()
	heap.Fix(&k.queue, l.index)
}

// sendHeartbeat extends the lease, and sets the time of the next heartbeat.
func (k *Keeper) sendHeartbeat(l *Lease, sent time.Time) {
	err := k.callExtend(k.life.Context(), l, sent, storeapi.ExtendRequest{})
	k.mu.Lock()
	defer k.mu.Unlock()
	l.extending = false
	if l.index < 0 {
		return // ended or lost meanwhile
	}
	if err != nil {
		l.beatAt = time.Now().Add(min(l.length/20, time.Second))
	}
	k.reorder(l)
	k.wake()
}

// callExtend makes one Extend call and applies its result. The new lease counts from when the call
// was sent, since the store counts from then or later.
func (k *Keeper) callExtend(ctx context.Context, l *Lease, sent time.Time, more storeapi.ExtendRequest) error {
	more.Key, more.Owner, more.Fence, more.Lease = *l.key, l.owner, l.fence, l.length
	k.mu.Lock()
	until := l.heldUntil
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(time.Until(until), 0))
	defer cancel()
	err := k.store.Extend(ctx, l.work, more)

	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case l.index < 0: // ended or lost meanwhile
	case err == nil:
		if end := sent.Add(l.length - l.length/10); end.After(l.heldUntil) {
			// Of two calls the later one counts.
			l.heldUntil, l.beatAt = end, sent.Add(l.length/3)
		}
	case errors.Is(err, storeapi.ErrLeaseLost):
		heap.Remove(&k.queue, l.index)
		l.holder.StopWork(storeapi.ErrLeaseLost)
	}
	return err
}

// queue is a heap of live leases.
type queue []*Lease

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	l := x.(*Lease) //nolint:errcheck // heap.Push is only called by Add
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *queue) Pop() any {
	old := *q
	last := len(old) - 1
	l := old[last]
	old[last] = nil
	l.index = -1
	*q = old[:last]
	return l
}
