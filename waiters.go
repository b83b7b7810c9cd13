package retrysafe

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// waitRoom lets the callers of this process that wait for one attempt share one look at the store.
// An attempt that ends in this process wakes them at once. For other attempts the room polls the
// store.
type waitRoom struct {
	rt *runtime

	mu    sync.Mutex
	rooms map[waitKey]*room
	total int
}

// waitKey identifies the attempt that a waiter found. A waiter waits for that one, not for any
// later one.
type waitKey struct {
	key   storeapi.StoreKey
	fence Fence
}

type room struct {
	waiters       int
	kick          chan struct{} // look now
	over          chan struct{} // closed when rec is the end of the attempt
	stopListening func()        // ends listening; nil without a listener; used by the watcher
	rec           Record
}

const (
	maxWaitersPerKey = 1_000
	maxWaiters       = 10_000
	shortPoll        = 100 * time.Millisecond
	longPoll         = time.Second
)

// waitLimit is the time until which a caller waits. It is set when the caller first has to wait.
type waitLimit struct{ end time.Time }

// wait waits for the end of the attempt in found, as long as p says. It returns the finished
// record, or the zero Record if Acquire has to decide again, or the error for the caller.
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

// verdict returns what the end of the attempt means for a waiter. It never makes the waiter run
// what has just failed: fifty waiters would run it fifty times.
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

// enter joins the room of k, or opens it. It returns nil if too many callers wait.
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
		r.look() // its watcher sees that no waiter is left
	}
}

// wake wakes the callers that wait for an attempt which has ended in this process.
func (w *waitRoom) wake(key storeapi.StoreKey, fence Fence) {
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

// watch looks at the record until the attempt is over or no caller waits any more. It looks at
// once, since the attempt may have ended before the listener was ready.
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
			interval = longPoll // the listener reports the end
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

// listen lets the store report the end to the room, if it can, until no caller waits any more. The
// result says whether it does so now.
func (w *waitRoom) listen(k waitKey, r *room) *atomic.Bool {
	listening := new(atomic.Bool)
	n, ok := w.rt.store.(storeapi.Notifier)
	if !ok {
		return listening
	}
	ctx, stop := context.WithCancel(w.rt.ctx)
	started := w.rt.background.start(func() {
		defer stop()
		_ = n.Watch(ctx, k.key, func() { // after an error the room polls more often
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
