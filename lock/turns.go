package lock

import (
	"context"
	"sync"
)

// turns lets one caller of this process at a time ask the backend for a name, in the order of their coming: a hundred goroutines that want one
// lock are one client of the server, and each of them is woken once.
type turns struct {
	mu    sync.Mutex
	names map[string]*queue
}

// queue is there while somebody has the turn; waiting are those behind.
type queue struct{ waiting []chan struct{} }

// take waits for the turn.
func (t *turns) take(ctx context.Context, name string) error {
	t.mu.Lock()
	q := t.names[name]
	if q == nil {
		if t.names == nil {
			t.names = make(map[string]*queue)
		}
		t.names[name] = new(queue)
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	q.waiting = append(q.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for i, w := range q.waiting {
		if w == mine {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			t.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	t.mu.Unlock()
	t.pass(name) // it came at the same moment
	return context.Cause(ctx)
}

// tryTake takes the turn if nobody has it.
func (t *turns) tryTake(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[name] != nil {
		return false
	}
	if t.names == nil {
		t.names = make(map[string]*queue)
	}
	t.names[name] = new(queue)
	return true
}

// pass gives the turn to the next.
func (t *turns) pass(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.names[name]
	if len(q.waiting) == 0 {
		delete(t.names, name)
		return
	}
	next := q.waiting[0]
	q.waiting = q.waiting[1:]
	close(next)
}
