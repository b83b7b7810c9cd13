package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
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
	waiting []chan struct{} // those after the current caller
	lastErr error           // why the last try failed; nil if the name was only held
}

// waitTurn waits for the turn until one of the contexts ends.
func (t *nameQueues) waitTurn(ctx, closing context.Context, name string) error {
	t.mu.Lock()
	if t.takeIfFree(name) {
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.names[name].waiting = append(t.names[name].waiting, mine)
	t.mu.Unlock()
	ended := ctx
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	case <-closing.Done():
		ended = closing
	}
	t.mu.Lock()
	if now := t.names[name]; now != nil {
		if i := slices.Index(now.waiting, mine); i >= 0 {
			now.waiting = slices.Delete(now.waiting, i, i+1)
			t.mu.Unlock()
			return context.Cause(ended)
		}
	}
	t.mu.Unlock()
	t.passTurn(name) // the turn came at the same moment
	return context.Cause(ended)
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
	now := t.names[name]
	if now == nil || len(now.waiting) == 0 {
		delete(t.names, name)
		return
	}
	next := now.waiting[0]
	now.waiting = now.waiting[1:]
	close(next)
}

// noteFailure stores why the current caller's try failed, for callers that do not wait.
func (t *nameQueues) noteFailure(name string, err error) {
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
