package retrysafe

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// waitRoom lets the callers of this process that wait for one attempt share one look at the store.
// An attempt that ends in this process wakes them at once; for others they poll.
type waitRoom struct {
	rt *runtime

	mu    sync.Mutex
	rooms map[waitKey]*room
	total int
}

// waitKey: a waiter waits for the attempt that it found, not for any later one.
type waitKey struct {
	key   StoreKey
	fence Fence
}

type room struct {
	waiters       int
	kick          chan struct{} // look now
	over          chan struct{} // closed when rec is the end of the attempt
	stopListening func()        // ends listening; nil where nobody listens; the watcher's
	rec           Record
}

const (
	maxWaitersPerKey = 1_000
	maxWaiters       = 10_000
	shortPoll        = 100 * time.Millisecond
	longPoll         = time.Second
)

// waitLimit is the end of a caller's patience, which begins when it first has to wait.
type waitLimit struct{ end time.Time }

// wait waits for the attempt found, as long as p says. The record is finished, or is one that
// Acquire has to decide on; the error is what the caller is told.
func (w *waitRoom) wait(ctx context.Context, found *Record, p *Policy, limit *waitLimit) (Record, error) {
	if p.Wait <= 0 {
		return Record{}, w.inProgress(found)
	}
	if limit.end.IsZero() {
		limit.end = time.Now().Add(p.Wait)
	}
	r := w.enter(waitKey{found.Key, found.Fence})
	if r == nil {
		return Record{}, w.inProgress(found)
	}
	defer w.leave(waitKey{found.Key, found.Fence}, r)
	t := time.NewTimer(time.Until(limit.end))
	defer t.Stop()
	select {
	case <-r.over:
	case <-t.C:
		return Record{}, w.inProgress(found)
	case <-ctx.Done():
		return Record{}, w.rt.wrap(found.Key, found.Attempt, context.Cause(ctx), 0)
	case <-w.rt.life.closing:
		return Record{}, w.rt.wrap(found.Key, found.Attempt, ErrClosed, time.Second)
	}
	return w.verdict(found, r.rec, p)
}

// verdict is what the end of the attempt means to a waiter. It never makes the waiter run what
// others saw fail: fifty waiters would run it fifty times.
func (w *waitRoom) verdict(found *Record, rec Record, p *Policy) (Record, error) {
	takeover := p.OnDoubt == Reexecute && rec.OnDoubt == Reexecute
	switch {
	case rec.State.Finished() && rec.Fence == found.Fence:
		// Every waiter gets a body of its own.
		rec.Answer.Body = bytes.Clone(rec.Answer.Body)
		return rec, nil
	case rec.State.Finished(), rec.InDoubt(), rec.State == StateInProgress && takeover:
		return Record{}, nil
	}
	return Record{}, w.rt.wrap(found.Key, found.Attempt, ErrAttemptFailed, time.Second+rand.N(2*time.Second))
}

func (w *waitRoom) inProgress(found *Record) error {
	return w.rt.wrap(found.Key, found.Attempt, ErrInProgress, max(time.Second, min(found.LeaseLeft, 5*time.Second)))
}

// enter joins the room of k, or opens it; nil where too many wait.
func (w *waitRoom) enter(k waitKey) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[k]
	if w.total >= maxWaiters || r != nil && r.waiters >= maxWaitersPerKey {
		return nil
	}
	if r == nil {
		r = &room{kick: make(chan struct{}, 1), over: make(chan struct{})}
		if !w.rt.background.start(func() { w.watch(k, r) }) {
			return nil
		}
		w.rooms[k] = r
	}
	r.waiters++
	w.total++
	return r
}

func (w *waitRoom) leave(k waitKey, r *room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.waiters--
	w.total--
	if r.waiters == 0 && w.rooms[k] == r {
		delete(w.rooms, k)
		r.look() // its watcher sees that nobody is left
	}
}

// wake tells those who wait for an attempt that it ended in this process.
func (w *waitRoom) wake(key StoreKey, fence Fence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[waitKey{key, fence}]; r != nil {
		r.look()
	}
}

func (r *room) look() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// watch looks at the record until the attempt is over or nobody waits any more. It looks first,
// since the attempt may have ended before anybody listened.
func (w *waitRoom) watch(k waitKey, r *room) {
	interval, listening := shortPoll, w.listen(k, r)
	defer func() {
		if r.stopListening != nil {
			r.stopListening()
		}
	}()
	for {
		ctx, cancel := context.WithTimeout(w.rt.ctx, acquireLimit)
		rec, err := w.rt.lookup(ctx, k.key)
		cancel()
		if err == nil && (rec.State != StateInProgress || rec.Fence != k.fence || rec.InDoubt()) {
			w.close(k, r, rec)
			return
		}
		pause := interval/2 + rand.N(interval)
		if err == nil {
			pause = min(pause, rec.LeaseLeft+time.Millisecond)
		}
		if interval = min(2*interval, longPoll); listening.Load() {
			interval = longPoll // what ends is told
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.kick:
		case <-w.rt.ctx.Done():
		}
		t.Stop()
		if w.rt.ctx.Err() != nil || w.deserted(k, r) {
			return
		}
	}
}

// listen has the room told of the end, where the store can, until nobody waits any more. The result
// says whether it is so now.
func (w *waitRoom) listen(k waitKey, r *room) *atomic.Bool {
	listening := new(atomic.Bool)
	n, ok := w.rt.store.(Notifier)
	if !ok {
		return listening
	}
	ctx, stop := context.WithCancel(w.rt.ctx)
	started := w.rt.background.start(func() {
		defer stop()
		_ = n.Watch(ctx, k.key, func() { // else it is asked for more often
			listening.Store(true)
			r.look()
		})
		listening.Store(false)
	})
	if !started {
		stop()
		return listening
	}
	r.stopListening = stop
	return listening
}

func (w *waitRoom) deserted(k waitKey, r *room) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rooms[k] != r
}

func (w *waitRoom) close(k waitKey, r *room, rec Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rooms[k] == r {
		delete(w.rooms, k)
	}
	r.rec = rec
	close(r.over)
}
