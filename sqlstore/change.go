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

// look reads the record outside of any transaction of its own. Its time was read before: what is
// answered was true at some point of the call.
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

// lookAlone is look for one call.
func (s *Store) lookAlone(ctx context.Context, id recordID) (l loaded, err error) {
	err = s.backend.read(ctx, brief, func(ctx context.Context, db execer) error {
		l, err = s.load(ctx, db, s.queries.load, id)
		return err
	})
	return l, err
}

// decision says what becomes of a record; it has no effect of its own, since it is asked more than
// once.
type decision func(cur protocol.Row, now protocol.Micros, floor retrysafe.Fence) (next protocol.Row, write bool, err error)

// change is one that a caller asks for. What its decision refers to is its own: a caller that
// leaves may use its memory again.
type change struct {
	store    *Store
	ctx      context.Context // the caller's
	key      retrysafe.StoreKey
	id       recordID
	notAfter time.Time // on the store's clock, to be committed at the latest; zero: no limit
	size     int       // about how many bytes it writes
	decide   decision
	looked   bool   // seen was read
	seen     loaded // before, without a lock

	l       loaded // what it was decided on
	next    protocol.Row
	write   bool
	decided error

	state atomic.Uint32
	alone bool // could not be made with the others
	err   error
	done  chan struct{}
}

// States of a change in a group.
const (
	begun uint32 = iota + 1 // it may be committed
	left                    // its caller has gone, and it will not be made
)

// begin tells whether the change is to be made; an error of the caller's context says why not.
func (c *change) begin() bool {
	if err := c.ctx.Err(); err != nil {
		c.err = &lockError{ended: err, text: c.store.waits}
		return false
	}
	return c.state.CompareAndSwap(0, begun) || c.state.Load() == begun
}

// leave tells whether the change has not begun, and then it never will.
func (c *change) leave() bool { return c.state.CompareAndSwap(0, left) }

// settle decides on what was read under a lock.
func (c *change) settle(l loaded) {
	c.l = l
	c.next, c.write, c.decided = c.decide(l.row, l.now, l.floor)
	c.write = c.write && c.decided == nil
}

// apply reads the record and the clock once this call is the one that writes, decides, and writes.
func (c *change) apply(ctx context.Context, w execer) (commit bool, err error) {
	seen := c.seen
	for {
		l, err := c.store.loadToWrite(ctx, w, c.id, &seen)
		if err != nil {
			return false, err
		}
		if c.settle(l); !c.write {
			return false, nil
		}
		if done, err := c.store.put(ctx, w, &c.key, c.id, &l, &c.next); done || err != nil {
			return true, err
		}
		seen = l // somebody else made the record meanwhile
	}
}

// args are the columns of the row that is to be written.
func (c *change) args() []any { return c.store.allArgs(&c.key, c.id, &c.next) }

// make makes the change. A look comes first where that may be all: nothing is locked then, and
// nobody waited for.
func (c *change) make(l line, look bool) (protocol.Row, protocol.Micros, error) {
	s := c.store
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	wait, cancel := s.patience(c.ctx, c.notAfter)
	defer cancel()
	if look {
		seen, err := s.look(wait, c.id)
		if err != nil {
			if wait.Err() != nil {
				err = &lockError{ended: c.ctx.Err(), after: wait.limit, text: s.waits}
			}
			return protocol.Row{}, 0, err
		}
		if next, write, err := c.decide(seen.row, seen.now, seen.floor); !write || err != nil {
			return next, seen.now, err
		}
		c.looked, c.seen = true, seen
	}
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
	s.checkClock(&c.l)
	return c.next, c.l.now, c.decided
}

// loadToWrite reads the record and locks it, where there are locks on records. One that was seen
// before and is gone was swept while this call waited for it: the largest fence that was removed
// may then be older than that, and is read again.
func (s *Store) loadToWrite(ctx context.Context, w execer, id recordID, seen *loaded) (loaded, error) {
	l, err := s.load(ctx, w, s.queries.loadToWrite, id)
	if err == nil && l.row.State == 0 && seen.row.State != 0 {
		return s.load(ctx, w, s.queries.loadToWrite, id)
	}
	return l, err
}

// write runs f in a transaction that has the file's write lock from its beginning, and commits
// where f says so. The context given to f does not end: from the moment that the lock is held, all
// that follows is short, and must not be cut in the middle.
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

// writeInTurn is write for a caller whose turn it is.
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
			w.discard() // it may have begun all the same
		}
		return wait.over(err)
	}
	commit, err := f(whole, w)
	if err == nil {
		err = wait.caller.Err()
	}
	if err == nil && commit {
		// Readers of a file without WAL stand in the way of a COMMIT, not of what came before.
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

// check refuses what must not reach the database.
func (s *Store) check(ctx context.Context, key *retrysafe.StoreKey) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	return key.Validate()
}

// enter refuses a call whose context has ended, or that comes from inside a transaction of this
// database, which it would wait for.
func (s *Store) enter(ctx context.Context) error {
	if inTransaction(ctx, s.db) {
		return retrysafe.ErrInTransaction
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: the context had ended before the call: %w", err)
	}
	return nil
}

// checkClock reports a clock that was set back, or one of several that differ: leases then last
// longer than they should.
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

// usualLease stands for the lease of a record that does not tell.
const usualLease = 30 * time.Second
