package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// claim makes a change that may be a duplicate's. If the key was seen before, it first reads the
// record. If that is enough for the answer, nothing is locked and it waits for no other call.
func (s *Store) claim(c *change) (protocol.Row, protocol.Micros, error) {
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	s.remembered.take(c.id)
	wait, cancel := s.db.patience(c.ctx, c.notAfter)
	defer cancel()
	if s.group != nil && s.backend.insertsFirst() && s.seen.isNew(c.id) {
		first := &change{db: s.db, ctx: c.ctx, key: c.key, id: c.id, notAfter: c.notAfter, size: c.size, decide: c.decide, first: true}
		row, now, err := s.write(first, wait, claims)
		if err == nil {
			s.seen.was(true)
		}
		if !errors.Is(err, errMet) {
			return row, now, err
		}
	}
	seen, err := s.look(wait, c.id)
	if err != nil {
		if wait.Err() != nil {
			err = &lockError{ended: c.ctx.Err(), after: wait.limit, text: s.db.waits}
		}
		return protocol.Row{}, 0, err
	}
	s.seen.was(seen.row.State == 0)
	if next, write, err := c.decide(seen.row, seen.now, seen.floor); !write || err != nil {
		return next, seen.now, err
	}
	c.looked, c.seen = true, seen
	return s.write(c, wait, claims)
}

// make makes a change that has to write.
func (s *Store) make(c *change, l line) (protocol.Row, protocol.Micros, error) {
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	c.last = s.remembered.take(c.id)
	wait, cancel := s.db.patience(c.ctx, c.notAfter)
	defer cancel()
	return s.write(c, wait, l)
}

func (s *Store) write(c *change, wait patience, l line) (protocol.Row, protocol.Micros, error) {
	var err error
	if s.group == nil {
		err = s.backend.write(c.ctx, c.id, c.notAfter, c.apply)
	} else {
		c.done = make(chan struct{})
		err = s.group.do(wait, l, c)
	}
	if err != nil {
		return protocol.Row{}, 0, s.db.failed("write", err)
	}
	if c.writes && s.group != nil && s.db.queries().putSame != "" {
		s.remembered.keep(c.id, &c.next)
	}
	s.checkClock(&c.l)
	return c.next, c.l.now, c.decided
}

// look reads the record without opening a transaction. The time was read before the record: the
// answer was true at some moment of the call.
func (s *Store) look(ctx context.Context, id recordID) (l loaded, err error) {
	if s.looks != nil {
		l, err = s.looks.at(ctx, id)
	} else {
		l, err = lookAlone(ctx, s.db, s.backend, id)
	}
	if err != nil {
		return l, s.db.failed("read", err)
	}
	s.checkClock(&l)
	return l, nil
}

// check refuses invalid calls before they reach the database.
func (s *Store) check(ctx context.Context, key *storeapi.StoreKey) error {
	if err := s.admit(ctx, key); err != nil {
		return err
	}
	return s.find(ctx)
}

// admit is check without a look for the tables.
func (s *Store) admit(ctx context.Context, key *storeapi.StoreKey) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	return key.Validate()
}

// enter is check for a call without a key.
func (s *Store) enter(ctx context.Context) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	return s.find(ctx)
}

// alive refuses a call whose context has ended, or that comes from within a transaction on this
// database. Such a call would wait for its own transaction.
func (s *Store) alive(ctx context.Context) error {
	if inTransaction(ctx, s.db.pool) {
		return storeapi.ErrInTransaction
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: the context had ended before the call: %w", err)
	}
	return nil
}

// checkClock reports a clock that was set back, or clocks that differ. Both make leases longer than
// they should be.
func (s *Store) checkClock(l *loaded) {
	row := &l.row
	if row.State == 0 || s.skewed.Load() {
		return
	}
	lease := usualLease
	if row.State == storeapi.StateInProgress && row.LeaseEnd != 0 {
		lease = time.Duration(row.LeaseEnd-row.Updated) * time.Microsecond
	}
	ahead := time.Duration(row.Updated-l.now) * time.Microsecond
	if ahead > lease/10 && s.skewed.CompareAndSwap(false, true) {
		s.db.logger.Warn("sqlstore: a record was updated in the future of "+s.backend.skew()+"; leases last longer by as much",
			"table", s.db.table, "ahead", ahead)
	}
}

// Waiting returns how many calls are queued for a transaction. If it stays above twice 128, the
// database cannot keep up.
func (s *Store) Waiting() int {
	if s.group == nil {
		return 0
	}
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	n := 0
	for i := range s.group.queues {
		n += len(s.group.queues[i].waiting)
	}
	return n + s.charges.reading.len() + s.charges.writing.len()
}

// find looks once for the schema or the database of the tables, and writes it into all statements:
// the work can change the search_path or the database of a session, which would find other tables
// then. Without tables it finds none, and the next call looks again.
func (s *Store) find(ctx context.Context) error {
	if s.db.placed.Load() {
		return nil
	}
	var schema string
	err := s.backend.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		err := db.QueryRowContext(ctx, s.db.queries().where).Scan(&schema)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return &lockError{after: s.db.lockWait, text: serverWaits}
	case err != nil:
		return s.db.failed("look for the tables", err)
	case strings.ContainsAny(schema, "?'\"`\\"): // no statement can name it
		s.db.placed.Store(true)
	case schema != "":
		s.db.place(schema)
	}
	return nil
}
