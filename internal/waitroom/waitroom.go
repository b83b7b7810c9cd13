// Package waitroom lets callers wait for the attempt of another caller.
package waitroom

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ErrAttemptFailed means that the attempt that was waited for ended without an answer.
var ErrAttemptFailed = errors.New("the attempt that was waited for ended without an answer")

// Rooms lets the callers of this process that wait for one attempt share one look at the store.
// An attempt that ends in this process wakes them at once. For other attempts the store is polled.
// It is safe for concurrent use.
type Rooms struct {
	store *storecall.Store
	life  *lifetime.Life

	mu    sync.Mutex
	rooms map[attempt]*room
	total int
}

// New returns Rooms in which no caller waits.
func New(store *storecall.Store, life *lifetime.Life) *Rooms {
	return &Rooms{store: store, life: life, rooms: make(map[attempt]*room)}
}

// attempt identifies the attempt that a waiter found. A waiter waits for that one, not for any
// later one.
type attempt struct {
	key   storeapi.StoreKey
	fence storeapi.Fence
}

type room struct {
	waiters       int
	wakeups       chan struct{} // look now
	ended         chan struct{} // closed when rec is the end of the attempt
	stopListening func()        // ends listening; nil without a listener; used by the watcher
	rec           storeapi.Record
}

const (
	maxWaitersPerKey = 1_000
	maxWaiters       = 10_000
	shortPoll        = 100 * time.Millisecond
	longPoll         = time.Second
)

// Wait waits for the end of the attempt in found, until end at the latest; a time that has passed
// means not at all. It returns the finished record, or the zero Record if Acquire has to decide
// again. After an error, retry is how long the caller waits before a retry. reexecute says that the
// caller may take over an attempt whose outcome is unknown.
func (w *Rooms) Wait(ctx context.Context, found *storeapi.Record, end time.Time, reexecute bool) (rec storeapi.Record, retry time.Duration, err error) {
	left := time.Until(end)
	if left <= 0 {
		return rec, retryInProgress(found), storeapi.ErrInProgress
	}
	k := attempt{found.Key, found.Fence}
	r := w.joinRoom(k)
	if r == nil {
		return rec, retryInProgress(found), storeapi.ErrInProgress
	}
	defer w.leaveRoom(k, r)
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-r.ended:
	case <-t.C:
		return rec, retryInProgress(found), storeapi.ErrInProgress
	case <-ctx.Done():
		return rec, 0, context.Cause(ctx)
	case <-w.life.Closing():
		return rec, time.Second, lifetime.ErrClosed
	}
	// What the end of the attempt means for a waiter. It never makes the waiter run what has just
	// failed: fifty waiters would run it fifty times.
	rec = r.rec
	takeover := reexecute && rec.OnDoubt == storeapi.Reexecute
	switch {
	case rec.State.Finished() && rec.Fence == found.Fence:
		// Every waiter gets a body of its own.
		rec.Answer.Body = bytes.Clone(rec.Answer.Body)
		return rec, 0, nil
	case rec.State.Finished(), rec.InDoubt(), rec.State == storeapi.StateInProgress && takeover:
		return storeapi.Record{}, 0, nil
	}
	return storeapi.Record{}, time.Second + rand.N(2*time.Second), ErrAttemptFailed
}

// retryInProgress returns how long a caller waits before it asks again for an attempt that runs.
func retryInProgress(found *storeapi.Record) time.Duration {
	return max(time.Second, min(found.LeaseLeft, 5*time.Second))
}

// joinRoom joins the room of k, or opens it. It returns nil if too many callers wait.
func (w *Rooms) joinRoom(k attempt) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[k]
	if w.total >= maxWaiters || r != nil && r.waiters >= maxWaitersPerKey {
		return nil
	}
	if r == nil {
		r = &room{wakeups: make(chan struct{}, 1), ended: make(chan struct{})}
		if !w.life.Go(func() { w.watchRecord(k, r) }) {
			return nil
		}
		w.rooms[k] = r
	}
	r.waiters++
	w.total++
	return r
}

func (w *Rooms) leaveRoom(k attempt, r *room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.waiters--
	w.total--
	if r.waiters == 0 && w.rooms[k] == r {
		delete(w.rooms, k)
		r.wakeWatcher() // its watcher sees that no waiter is left
	}
}

// Wake wakes the callers that wait for an attempt which has ended in this process.
func (w *Rooms) Wake(key storeapi.StoreKey, fence storeapi.Fence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[attempt{key, fence}]; r != nil {
		r.wakeWatcher()
	}
}

func (r *room) wakeWatcher() {
	select {
	case r.wakeups <- struct{}{}:
	default:
	}
}

// watchRecord looks at the record until the attempt is over or no caller waits any more. It looks
// at once, since the attempt may have ended before the listener was ready.
func (w *Rooms) watchRecord(k attempt, r *room) {
	interval, listening := shortPoll, w.listenForEnd(k, r)
	defer func() {
		if r.stopListening != nil {
			r.stopListening()
		}
	}()
	for {
		ctx, cancel := context.WithTimeout(w.life.Context(), storecall.Limit)
		rec, err := w.store.Lookup(ctx, k.key)
		cancel()
		if err == nil && (rec.State != storeapi.StateInProgress || rec.Fence != k.fence || rec.InDoubt()) {
			w.closeRoom(k, r, rec)
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
		case <-r.wakeups:
		case <-w.life.Context().Done():
		}
		t.Stop()
		if w.life.Context().Err() != nil || w.isDeserted(k, r) {
			return
		}
	}
}

// listenForEnd lets the store report the end to the room, if it can, until no caller waits any
// more. The result says whether it does so now.
func (w *Rooms) listenForEnd(k attempt, r *room) *atomic.Bool {
	listening := new(atomic.Bool)
	n, ok := w.store.Inner().(storeapi.Notifier)
	if !ok {
		return listening
	}
	ctx, stop := context.WithCancel(w.life.Context())
	started := w.life.Go(func() {
		defer stop()
		_ = n.Watch(ctx, k.key, func() { // after an error the room polls more often
			listening.Store(true)
			r.wakeWatcher()
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

func (w *Rooms) isDeserted(k attempt, r *room) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rooms[k] != r
}

func (w *Rooms) closeRoom(k attempt, r *room, rec storeapi.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rooms[k] == r {
		delete(w.rooms, k)
	}
	r.rec = rec
	close(r.ended)
}
