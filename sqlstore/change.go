package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// look reads the record without opening a transaction. The time was read before the record: the
// answer was true at some moment of the call.
func (s *Store) look(ctx context.Context, id recordID) (l loaded, err error) {
	if s.looks != nil {
		l, err = s.looks.at(ctx, id)
	} else {
		l, err = s.lookAlone(ctx, id)
	}
	if err != nil {
		return l, s.failed("read", err)
	}
	s.checkClock(&l)
	return l, nil
}

// lookAlone is look for a single call.
func (s *Store) lookAlone(ctx context.Context, id recordID) (l loaded, err error) {
	err = s.backend.read(ctx, brief, func(ctx context.Context, db execer) error {
		l, err = s.load(ctx, db, s.queries.load, id)
		return err
	})
	return l, err
}

// decision returns the next state of a record. It has no side effects, since it may be called
// several times.
type decision func(cur protocol.Row, now protocol.Micros, floor retrysafe.Fence) (next protocol.Row, write bool, err error)

// change is a change that a caller asks for. decide must refer only to memory of its own, since a
// caller that leaves may reuse its memory.
type change struct {
	store    *Store
	ctx      context.Context // the caller's
	key      retrysafe.StoreKey
	id       recordID
	notAfter time.Time // last time for the commit, on the store's clock; zero: no limit
	size     int       // about how many bytes it writes
	decide   decision
	looked   bool   // seen was read
	seen     loaded // the record before, read without a lock
	// first means that the key is probably new: nothing was read, and if there is a record, the
	// change fails with errMet.
	first bool
	// last is the record as this store has last written it; nil: that is unknown.
	last *protocol.Row

	l       loaded // what decide was called with
	next    protocol.Row
	writes  bool
	decided error

	state atomic.Uint32
	alone bool // could not be made together with others
	err   error
	done  chan struct{}
}

// States of a change in a group.
const (
	begun uint32 = iota + 1 // may be committed
	left                    // its caller has left, and it will not be made
)

// begin reports whether the change should be made. If not, c.err says how the caller's context
// ended.
func (c *change) begin() bool {
	if err := c.ctx.Err(); err != nil {
		c.err = &lockError{ended: err, text: c.store.waits}
		return false
	}
	return c.state.CompareAndSwap(0, begun) || c.state.Load() == begun
}

// leave reports whether the change has not begun. In that case it never will.
func (c *change) leave() bool { return c.state.CompareAndSwap(0, left) }

// settle decides on a record that was read under a lock.
func (c *change) settle(l loaded) {
	c.l = l
	c.next, c.writes, c.decided = c.decide(l.row, l.now, l.floor)
	c.writes = c.writes && c.decided == nil
}

// apply reads the record and the clock while this call is the writer, decides, and writes.
func (c *change) apply(ctx context.Context, w execer) (commit bool, err error) {
	seen := c.seen
	for {
		l, err := c.store.loadToWrite(ctx, w, c.id, &seen)
		if err != nil {
			return false, err
		}
		if c.settle(l); !c.writes {
			return false, nil
		}
		if done, err := c.store.put(ctx, w, &c.key, c.id, &l, &c.next); done || err != nil {
			return true, err
		}
		seen = l // another call has inserted the record meanwhile
	}
}

// args returns the columns of inserted.
func (c *change) args() []any { return insertArgs(&c.key, c.id, &c.next) }

// errMet means that a key that was probably new has a record. No caller gets it.
var errMet = errors.New("sqlstore: the key has a record")

// claim makes a change that may be a duplicate's. If the key was seen before, it first reads the
// record. If that is enough for the answer, nothing is locked and it waits for no other call.
func (c *change) claim() (protocol.Row, protocol.Micros, error) {
	s := c.store
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	s.remembered.take(c.id)
	wait, cancel := s.patience(c.ctx, c.notAfter)
	defer cancel()
	if s.group != nil && s.insertsFirst && s.seen.isNew(c.id) {
		first := &change{store: s, ctx: c.ctx, key: c.key, id: c.id, notAfter: c.notAfter, size: c.size, decide: c.decide, first: true}
		row, now, err := first.write(wait, claims)
		if !errors.Is(err, errMet) {
			s.seen.was(true)
			return row, now, err
		}
	}
	seen, err := s.look(wait, c.id)
	if err != nil {
		if wait.Err() != nil {
			err = &lockError{ended: c.ctx.Err(), after: wait.limit, text: s.waits}
		}
		return protocol.Row{}, 0, err
	}
	s.seen.was(seen.row.State == 0)
	if next, write, err := c.decide(seen.row, seen.now, seen.floor); !write || err != nil {
		return next, seen.now, err
	}
	c.looked, c.seen = true, seen
	return c.write(wait, claims)
}

// make makes a change that has to write.
func (c *change) make(l line) (protocol.Row, protocol.Micros, error) {
	s := c.store
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	c.last = s.remembered.take(c.id)
	wait, cancel := s.patience(c.ctx, c.notAfter)
	defer cancel()
	return c.write(wait, l)
}

func (c *change) write(wait patience, l line) (protocol.Row, protocol.Micros, error) {
	s := c.store
	var err error
	if s.group == nil {
		err = s.backend.write(c.ctx, c.id, c.notAfter, c.apply)
	} else {
		c.done = make(chan struct{})
		err = s.group.do(wait, l, c)
	}
	if err != nil {
		return protocol.Row{}, 0, s.failed("write", err)
	}
	if c.writes && s.queries.putSame != "" {
		s.remembered.keep(c.id, &c.next)
	}
	s.checkClock(&c.l)
	return c.next, c.l.now, c.decided
}

// loadToWrite reads and locks the record, on databases that lock records. If a record was seen
// before and is missing now, a sweep has removed it while this call waited. The largest removed
// fence may have been read before that removal, so it is read again.
func (s *Store) loadToWrite(ctx context.Context, w execer, id recordID, seen *loaded) (loaded, error) {
	l, err := s.load(ctx, w, s.queries.loadToWrite, id)
	if err == nil && l.row.State == 0 && seen.row.State != 0 {
		return s.load(ctx, w, s.queries.loadToWrite, id)
	}
	return l, err
}

// write runs f in a transaction that has the file's write lock from its beginning, and commits if f
// says so. The context of f does not end: once the lock is held, the rest is short and must not be
// interrupted.
func (s *Store) write(ctx context.Context, notAfter time.Time, f func(context.Context, execer) (commit bool, err error)) error {
	wait, cancel := s.patience(ctx, notAfter)
	defer cancel()
	unlock, err := s.turn(wait)
	if err != nil {
		return wait.over(err)
	}
	defer unlock()
	return s.writeInTurn(wait, f)
}

// writeInTurn is write for a caller that has the turn.
func (s *Store) writeInTurn(wait patience, f func(context.Context, execer) (commit bool, err error)) error {
	w, err := s.session(wait)
	if err != nil {
		return wait.over(err)
	}
	whole := context.WithoutCancel(wait.caller)
	exec := func(statement string) error {
		_, err := w.ExecContext(whole, statement)
		return err
	}
	if err = retry(wait, func() error { return exec("BEGIN IMMEDIATE") }); err != nil {
		if sqliteBusy(err) {
			w.end(whole)
		} else {
			w.discard() // the transaction may have begun
		}
		return wait.over(err)
	}
	commit, err := f(whole, w)
	if err == nil {
		err = wait.caller.Err()
	}
	if err == nil && commit {
		// Readers of a file without WAL block the COMMIT, but not the statements before it.
		err = retry(wait, func() error { return exec("COMMIT") })
	} else {
		err = errors.Join(err, exec("ROLLBACK"))
	}
	if err != nil {
		w.discard()
		return wait.over(err)
	}
	w.end(whole)
	return nil
}

// turn waits until no other call of this store writes.
func (s *Store) turn(wait patience) (unlock func(), err error) {
	select {
	case s.writer <- struct{}{}:
		return func() { <-s.writer }, nil
	case <-wait.Done():
		return nil, wait.Err()
	}
}

// check refuses invalid calls before they reach the database.
func (s *Store) check(ctx context.Context, key *retrysafe.StoreKey) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	return key.Validate()
}

// enter refuses a call whose context has ended, or that comes from within a transaction on this
// database. Such a call would wait for its own transaction.
func (s *Store) enter(ctx context.Context) error {
	if inTransaction(ctx, s.db) {
		return retrysafe.ErrInTransaction
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
	if row.State == retrysafe.StateInProgress && row.LeaseEnd != 0 {
		lease = time.Duration(row.LeaseEnd-row.Updated) * time.Microsecond
	}
	ahead := time.Duration(row.Updated-l.now) * time.Microsecond
	if ahead > lease/10 && s.skewed.CompareAndSwap(false, true) {
		s.logger.Warn("sqlstore: a record was updated in the future of "+s.backend.skew()+"; leases last longer by as much",
			"table", s.table, "ahead", ahead)
	}
}

// usualLease is used for a record that does not tell its lease.
const usualLease = 30 * time.Second
