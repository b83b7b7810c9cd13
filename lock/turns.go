package lock

import (
	"context"
	"slices"
	"sync"
)

// turns lets one caller of this process at a time ask the backend for a name, in the order of their coming: a hundred goroutines that want one
// lock are one client of the server, and each of them is woken once.
type turns struct {
	mu    sync.Mutex
	names map[string][]chan struct{} // those behind the one who has the turn; no entry: nobody has it
}

// take waits for the turn, until one of the contexts ends.
func (t *turns) take(ctx, closing context.Context, name string) error {
	t.mu.Lock()
	if t.free(name) {
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.names[name] = append(t.names[name], mine)
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
	waiting := t.names[name]
	if i := slices.Index(waiting, mine); i >= 0 {
		t.names[name] = slices.Delete(waiting, i, i+1)
		t.mu.Unlock()
		return context.Cause(ended)
	}
	t.mu.Unlock()
	t.pass(name) // it came at the same moment
	return context.Cause(ended)
}

// tryTake takes the turn if nobody has it.
func (t *turns) tryTake(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free(name)
}

// free takes the turn if nobody has it. The mutex is held.
func (t *turns) free(name string) bool {
	if _, taken := t.names[name]; taken {
		return false
	}
	if t.names == nil {
		t.names = make(map[string][]chan struct{})
	}
	t.names[name] = nil
	return true
}

// pass gives the turn to the next.
func (t *turns) pass(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := t.names[name]
	if len(waiting) == 0 {
		delete(t.names, name)
		return
	}
	t.names[name] = waiting[1:]
	close(waiting[0])
}
