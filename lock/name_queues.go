package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// nameQueues lets one caller of this process at a time ask the backend for a name, in the order in
// which they asked. So a hundred goroutines that want one lock are one client of the server, and a
// release wakes only one of them.
type nameQueues struct {
	mu    sync.Mutex
	names map[string]*nameQueue // a name without an entry is free
}

// nameQueue is the state of a name that a caller has or waits for.
type nameQueue struct {
	waiting []*waiter // those after the current caller
	passes  int       // how often the lock was passed since it was last free
	passing time.Time // when it was passed first
	lastErr error     // why the last try failed; nil if the name was only held
}

// waiter is a caller that waits for its turn.
type waiter struct {
	req  Request
	turn chan turn // has room for it
	gone bool      // its wait ended while a holder passed the lock to it
}

// turn is the right to ask the backend. If the holder before has passed the lock, it has the grant,
// or only the time of the request if no answer came: then the waiter may have the lock.
type turn struct {
	grant       *Grant
	requestedAt time.Time
}

// A lock is passed within a process at most maxPasses times in a row, and for passTime. Then it is
// free for a moment, so that callers of other processes get it too.
const (
	maxPasses = 15
	passTime  = 100 * time.Millisecond
)

// waitTurn waits for the turn until one of the contexts ends. A turn with a lock that was passed at
// that moment is returned.
func (t *nameQueues) waitTurn(ctx, closing context.Context, req Request) (turn, error) {
	t.mu.Lock()
	if t.takeIfFree(req.Name) {
		t.mu.Unlock()
		return turn{}, nil
	}
	mine := &waiter{req: req, turn: make(chan turn, 1)}
	t.names[req.Name].waiting = append(t.names[req.Name].waiting, mine)
	t.mu.Unlock()
	ended := ctx
	select {
	case got := <-mine.turn:
		return got, nil
	case <-ctx.Done():
	case <-closing.Done():
		ended = closing
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.names[req.Name]; now != nil {
		if i := slices.Index(now.waiting, mine); i >= 0 {
			now.waiting = slices.Delete(now.waiting, i, i+1)
			return turn{}, context.Cause(ended)
		}
	}
	select {
	case got := <-mine.turn: // it came at the same moment
		if !got.requestedAt.IsZero() {
			return got, nil
		}
		t.passTurnLocked(req.Name)
	default:
		mine.gone = true
	}
	return turn{}, context.Cause(ended)
}

// removeNext removes the next waiter from the queue, for a holder that passes it the lock. The
// holder keeps the turn until it calls giveTurn. nil means that no caller waits, or that the lock
// was passed often enough.
func (t *nameQueues) removeNext(name string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.names[name]
	if now == nil || len(now.waiting) == 0 {
		return nil
	}
	if now.passes == 0 {
		now.passing = time.Now()
	}
	if now.passes == maxPasses || time.Since(now.passing) > passTime {
		return nil
	}
	now.passes++
	next := now.waiting[0]
	now.waiting = now.waiting[1:]
	return next
}

// giveTurn gives a waiter of removeNext the turn. It returns false if the waiter has gone; then the
// turn stays with the caller.
func (t *nameQueues) giveTurn(next *waiter, got turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next.gone {
		return false
	}
	if now := t.names[next.req.Name]; now != nil && got.grant != nil {
		now.lastErr = nil
	}
	next.turn <- got
	return true
}

// tryTurn takes the turn if no caller has it, and reports whether it did.
func (t *nameQueues) tryTurn(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeIfFree(name)
}

// takeIfFree takes the turn if no caller has it. The caller holds the mutex.
func (t *nameQueues) takeIfFree(name string) bool {
	if _, taken := t.names[name]; taken {
		return false
	}
	if t.names == nil {
		t.names = make(map[string]*nameQueue)
	}
	t.names[name] = new(nameQueue)
	return true
}

// passTurn gives the turn to the next waiter.
func (t *nameQueues) passTurn(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passTurnLocked(name)
}

// passTurnLocked is passTurn for a caller that holds the mutex.
func (t *nameQueues) passTurnLocked(name string) {
	now := t.names[name]
	if now == nil || len(now.waiting) == 0 {
		delete(t.names, name)
		return
	}
	next := now.waiting[0]
	now.waiting, now.passes = now.waiting[1:], 0
	next.turn <- turn{}
}

// noteAnswer stores why the current caller's try failed, for callers that do not wait; nil: it did
// not.
func (t *nameQueues) noteAnswer(name string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.names[name]; now != nil {
		if now.lastErr = err; errors.Is(err, ErrHeld) {
			now.lastErr = nil
		}
	}
}

// lastFailure returns why the last try failed. It returns nil if it did not, or if the name is only
// held.
func (t *nameQueues) lastFailure(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.names[name]; now != nil {
		return now.lastErr
	}
	return nil
}
