package sqlstore

import (
	"context"
	"sync"
	"time"
)

// looks reads the records that many callers ask for with one connection: those who came while the
// last ones were read are the next. There is no timer, and a lone call waits for nobody.
type looks struct {
	store *Store
	alone chan struct{} // has room for those who look alone at one time

	mu      sync.Mutex
	waiting []*sight
	busy    int // lanes
}

// sight is what one caller looks at.
type sight struct {
	id   recordID
	l    loaded
	err  error
	done chan struct{}
}

// lookLanes are two, so that a connection on which nothing comes back does not hold up all.
const lookLanes = 2

// lonely is how many look alone at one time: after a batch has failed all of it would, each on a
// connection of its own.
const lonely = 4

func newLooks(s *Store) *looks { return &looks{store: s, alone: make(chan struct{}, lonely)} }

// at reads a record with others. Where that fails, the caller looks alone: the error may be
// another's.
func (k *looks) at(ctx context.Context, id recordID) (loaded, error) {
	wait, cancel := k.store.patience(ctx, time.Time{})
	defer cancel()
	s := &sight{id: id, done: make(chan struct{})}
	k.mu.Lock()
	k.waiting = append(k.waiting, s)
	k.start()
	k.mu.Unlock()
	select {
	case <-s.done:
	case <-wait.Done():
		return loaded{}, &lockError{ended: ctx.Err(), after: wait.limit, text: k.store.waits}
	}
	if s.err == nil {
		return s.l, nil
	}
	select {
	case k.alone <- struct{}{}:
	case <-wait.Done():
		return loaded{}, &lockError{ended: ctx.Err(), after: wait.limit, text: k.store.waits}
	}
	defer func() { <-k.alone }()
	return k.store.lookAlone(ctx, id)
}

// start lets those who wait be read, if a lane is free. k.mu is held.
func (k *looks) start() {
	for k.busy < lookLanes && len(k.waiting) > 0 {
		n := min(len(k.waiting), mostTogether)
		batch := k.waiting[:n:n]
		k.waiting = k.waiting[n:]
		k.busy++
		go k.run(batch)
	}
}

func (k *looks) run(batch []*sight) {
	err := k.store.backend.see(context.Background(), batch)
	for _, s := range batch {
		s.err = err
		close(s.done)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
	k.start()
}
