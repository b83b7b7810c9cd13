package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// look reads the record outside of any transaction of its own. Its time was read before: what is answered was true at some point of the
// call.
func (s *Store) look(ctx context.Context, id recordID) (l loaded, err error) {
	err = s.backend.read(ctx, brief, func(ctx context.Context, db execer) error {
		l, err = s.load(ctx, db, s.queries.load, id)
		return err
	})
	if err != nil {
		return l, s.failed("read", err)
	}
	s.checkClock(&l)
	return l, nil
}

// decision says what becomes of a record; it has no effect of its own, since it is asked twice.
type decision func(cur protocol.Row, now protocol.Micros, floor retrysafe.Fence) (next protocol.Row, write bool, err error)

// change lets decide say what becomes of a record, and writes that. Nothing is locked where nothing is to be written; else the record is
// read again, and the clock too, once this call is the one that writes. notAfter bounds the wait for that, on the store's clock.
func (s *Store) change(ctx context.Context, key retrysafe.StoreKey, notAfter time.Time, decide decision) (protocol.Row, protocol.Micros, error) {
	if err := s.check(ctx, &key); err != nil {
		return protocol.Row{}, 0, err
	}
	id := idOf(key)
	seen, err := s.look(ctx, id)
	if err != nil {
		return protocol.Row{}, 0, err
	}
	if next, write, err := decide(seen.row, seen.now, seen.floor); !write || err != nil {
		return next, seen.now, err
	}
	var l loaded
	var next protocol.Row
	var decided error
	err = s.backend.write(ctx, id, notAfter, func(ctx context.Context, w execer) (bool, error) {
		for {
			if l, err = s.loadToWrite(ctx, w, id, &seen); err != nil {
				return false, err
			}
			var write bool
			next, write, decided = decide(l.row, l.now, l.floor)
			if write = write && decided == nil; !write {
				return false, nil
			}
			if done, err := s.put(ctx, w, &key, id, &l, &next); done || err != nil {
				return true, err
			}
			seen = l // somebody else made the record meanwhile
		}
	})
	if err != nil {
		return next, l.now, s.failed("write", err)
	}
	return next, l.now, decided
}

// loadToWrite reads the record and locks it, where there are locks on records. One that was seen before and is gone was swept while this
// call waited for it: the largest fence that was removed may then be older than that, and is read again.
func (s *Store) loadToWrite(ctx context.Context, w execer, id recordID, seen *loaded) (loaded, error) {
	l, err := s.load(ctx, w, s.queries.loadToWrite, id)
	if err == nil && l.row.State == 0 && seen.row.State != 0 {
		return s.load(ctx, w, s.queries.loadToWrite, id)
	}
	return l, err
}

// write runs f in a transaction that has the file's write lock from its beginning, and commits where f says so. The context given to f
// does not end: from the moment that the lock is held, all that follows is short, and must not be cut in the middle.
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

// enter refuses a call whose context has ended, or that comes from inside a transaction of this database, which it would wait for.
func (s *Store) enter(ctx context.Context) error {
	if inTransaction(ctx, s.db) {
		return retrysafe.ErrInTransaction
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: the context had ended before the call: %w", err)
	}
	return nil
}

// checkClock reports a clock that was set back, or one of several that differ: leases then last longer than they should.
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
