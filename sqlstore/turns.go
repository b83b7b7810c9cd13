package sqlstore

import (
	"context"
	"sync"
)

// turns lets one call of this process at a time write to a key. Waiting calls hold no connection:
// otherwise the waiters for one held key would use up the pool, and calls for other keys would get
// no connection.
type turns struct {
	mu   sync.Mutex
	keys map[recordID]*turn
}

func newTurns() *turns { return &turns{keys: make(map[recordID]*turn)} }

type turn struct {
	held  chan struct{}
	users int // holders and waiters
}

// take waits for the turn of id until ctx ends.
func (t *turns) take(ctx context.Context, id recordID) (give func(), err error) {
	t.mu.Lock()
	k := t.keys[id]
	if k == nil {
		k = &turn{held: make(chan struct{}, 1)}
		t.keys[id] = k
	}
	k.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(t.keys, id)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
