package sqlstore

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var _ storeapi.Notifier = (*Store)(nil)

// Watch implements [storeapi.Notifier] if [Options].Listen is set. One connection listens for all
// keys of a store while any caller watches.
func (s *Store) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	if s.listen == nil {
		return errors.ErrUnsupported
	}
	id, err := s.checkKey(ctx, &key)
	if err != nil {
		return err
	}
	return s.listeners.watchKey(ctx, s, hexID(id), changed)
}

func hexID(id table.RecordID) string { return hex.EncodeToString(id[:]) }

// listeners has the watchers of a store's keys.
type listeners struct {
	mu      sync.Mutex
	current *listener
}

// listener is one listening connection.
type listener struct {
	stop  context.CancelFunc
	ended chan struct{} // closed when it stops listening
	err   error         // why it stopped
	ready bool          // it is listening
	keys  map[string]map[*func()]struct{}
}

func (e *listeners) watchKey(ctx context.Context, s *Store, id string, changed func()) error {
	e.mu.Lock()
	if e.current == nil {
		listening, stop := context.WithCancel(context.Background())
		e.current = &listener{stop: stop, ended: make(chan struct{}), keys: make(map[string]map[*func()]struct{})}
		go e.listenForEnds(listening, s, e.current)
	}
	on := e.current
	if on.keys[id] == nil {
		on.keys[id] = make(map[*func()]struct{})
	}
	on.keys[id][&changed] = struct{}{}
	ready := on.ready
	e.mu.Unlock()
	defer e.leaveWatch(on, id, &changed)
	if ready {
		changed()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-on.ended:
		return on.err
	}
}

// leaveWatch ends a watch. The last one ends the connection.
func (e *listeners) leaveWatch(on *listener, id string, changed *func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(on.keys[id], changed)
	if len(on.keys[id]) == 0 {
		delete(on.keys, id)
	}
	if len(on.keys) == 0 {
		on.stop()
		if e.current == on {
			e.current = nil
		}
	}
}

func (e *listeners) listenForEnds(ctx context.Context, s *Store, on *listener) {
	err := s.listen(ctx, s.endChannel(), func(payload string) { e.hearEnd(on, payload) })
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == on {
		e.current = nil // the next watcher tries again
	}
	on.err = err
	close(on.ended)
}

// hearEnd notifies the watchers of a key. An empty payload means that listening has begun, and
// notifies all of them.
func (e *listeners) hearEnd(on *listener, payload string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	on.ready = true
	for id, all := range on.keys {
		if payload == "" || payload == id {
			for changed := range all {
				(*changed)()
			}
		}
	}
}

// endChannel returns the name of the channel for finished attempts of this table.
func (s *Store) endChannel() string { return s.db.Table + "_ended" }

// endPublisher publish finished attempts. A message is a hint: no call waits for it, and waiters
// find out by polling if one is lost.
type endPublisher struct {
	mu      sync.Mutex
	pending map[string]struct{}
	busy    bool
}

// publishTimeout limits how long publishing a message may take.
const publishTimeout = 2 * time.Second

// announceEnd queues a message that an attempt has ended. It is published after the attempt's
// COMMIT, since on PostgreSQL a transaction that notifies holds a lock of the whole server while it
// commits.
func (s *Store) announceEnd(id table.RecordID) {
	if s.listen == nil {
		return
	}
	c := &s.endPublisher
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = make(map[string]struct{})
	}
	if len(c.pending) < table.MostTogether { // else the database does not answer, or cannot keep up
		c.pending[hexID(id)] = struct{}{}
	}
	if !c.busy {
		c.busy = true
		go s.publishEnds()
	}
}

func (s *Store) publishEnds() {
	c := &s.endPublisher
	for {
		c.mu.Lock()
		ids := "{"
		for id := range c.pending {
			if ids != "{" {
				ids += ","
			}
			ids += id
		}
		clear(c.pending)
		if c.busy = ids != "{"; !c.busy {
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
		_, _ = s.db.Calls.ExecContext(ctx, s.db.Statements.Load().NotifyEnds, s.endChannel(), ids+"}")
		cancel()
	}
}
