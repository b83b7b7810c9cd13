package sqlstore

import (
	"context"
	"sync"
)

// turns lets one call of this process at a time write to a key. Those that wait for it have no
// connection: a key that somebody holds would otherwise take all connections of the pool, and with
// them those that calls for other keys need.
type turns struct {
	mu   sync.Mutex
	keys map[recordID]*turn
}

type turn struct {
	held  chan struct{}
	users int // that hold it or wait for it
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
