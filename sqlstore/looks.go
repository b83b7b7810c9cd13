package sqlstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// looks reads the records of many callers on one connection: the lookups that arrive during a read
// form the next one. There is no timer, and a lone call waits for no other.
type looks struct {
	db      *database
	backend backend
	alone   chan struct{} // limits how many callers look alone at one time

	mu      sync.Mutex
	waiting []*sight
	busy    int // lanes in use
}

// lookLanes is 2, so that one connection that does not answer does not block all lookups.
const lookLanes = 2

// lonely is how many callers look alone at one time. Without it, a failed batch would make all its
// callers look alone, each on its own connection.
const lonely = 4

func newLooks(db *database, b backend) *looks {
	return &looks{db: db, backend: b, alone: make(chan struct{}, lonely)}
}

// at reads a record together with others. If that fails, the caller looks alone, since another
// record may have caused the error.
func (k *looks) at(ctx context.Context, id recordID) (loaded, error) {
	wait, cancel := k.db.patience(ctx, time.Time{})
	defer cancel()
	s := &sight{id: id, done: make(chan struct{})}
	k.mu.Lock()
	k.waiting = append(k.waiting, s)
	k.start()
	k.mu.Unlock()
	select {
	case <-s.done:
	case <-wait.Done():
		k.drop(s)
		return loaded{}, &lockError{ended: ctx.Err(), after: wait.limit, text: k.db.waits}
	}
	if s.err == nil {
		return s.l, nil
	}
	select {
	case k.alone <- struct{}{}:
	case <-wait.Done():
		return loaded{}, &lockError{ended: ctx.Err(), after: wait.limit, text: k.db.waits}
	}
	defer func() { <-k.alone }()
	return lookAlone(ctx, k.db, k.backend, id)
}

// drop removes a lookup whose caller has left, so that the line does not grow while the database
// does not answer.
func (k *looks) drop(s *sight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.waiting, s); i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	}
}

// start reads waiting lookups if a lane is free. k.mu is held.
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
	err := k.backend.see(context.Background(), batch)
	for _, s := range batch {
		s.err = err
		close(s.done)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
	k.start()
}

// lookAlone is look for a single call.
func lookAlone(ctx context.Context, d *database, b backend, id recordID) (l loaded, err error) {
	err = b.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		l, err = d.load(ctx, db, d.queries().load, id)
		return err
	})
	return l, err
}
