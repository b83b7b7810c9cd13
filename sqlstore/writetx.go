package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// writeTx is a transaction of database/sql that has the file's write lock.
type writeTx struct {
	*sql.Tx
	s       *Store
	session *session
	unlock  func()
	lost    bool // the connection is in an unknown state
}

// begin opens a transaction for the caller's work. It ends with ctx.
func (s *Store) begin(ctx context.Context) (*writeTx, error) {
	return s.beginOn(ctx, func(ctx context.Context, db execer) error {
		return oneFile(db.QueryRowContext(ctx, otherFiles).Scan)
	})
}

// beginOn opens a transaction on a connection that passes check.
func (s *Store) beginOn(ctx context.Context, check func(context.Context, execer) error) (*writeTx, error) {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	unlock, err := s.turn(wait)
	if err != nil {
		return nil, wait.over(err)
	}
	tx := &writeTx{s: s, unlock: unlock}
	if tx.session, err = s.session(wait); err != nil {
		unlock()
		return nil, wait.over(err)
	}
	err = check(ctx, tx.session)
	if err == nil {
		err = retry(wait, func() error { return tx.open(ctx) })
	}
	if err != nil {
		tx.end()
		return nil, wait.over(err)
	}
	return tx, nil
}

// open begins the transaction, and takes the lock with a statement that changes nothing. A
// transaction of database/sql begins without the lock. If it read first and another process wrote
// in between, it could not get the lock any more.
func (w *writeTx) open(ctx context.Context) error {
	tx, err := w.session.BeginTx(ctx, nil)
	if err != nil {
		w.lost = !sqliteBusy(err) // the transaction may have begun
		return err
	}
	if _, err := tx.ExecContext(ctx, w.s.queries.lock); err != nil {
		w.lost = tx.Rollback() != nil
		return err
	}
	w.Tx = tx
	return nil
}

// errAttached refuses a transaction that could commit only in part.
const errAttached = stateError("sqlstore: the connection has another file attached, and a commit is atomic for each file by itself; detach it, or use " +
	"a *sql.DB of its own for what needs it")

// otherFiles counts the attached files of a connection.
const otherFiles = "SELECT count(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp')"

// oneFile refuses a connection with attached files: the record could commit without the effect, or
// the effect without the record. read reads the row of otherFiles.
func oneFile(read func(dest ...any) error) error {
	var others int
	err := read(&others)
	if err == nil && others > 0 {
		err = errAttached
	}
	return err
}

// commit sends COMMIT, which cannot be taken back. Readers of a file without WAL block it. Only
// SQLite itself can wait for them here, since a driver rolls back if COMMIT fails.
func (w *writeTx) commit(ctx context.Context) error {
	limit := w.s.lockWait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(0, time.Until(end)))
	}
	return w.commitWithin(ctx, limit)
}

// commitWithin is commit with a limit for the wait for readers. If they are still there after that,
// nothing was committed.
func (w *writeTx) commitWithin(ctx context.Context, limit time.Duration) error {
	if _, err := w.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", limit.Milliseconds())); err != nil {
		return err
	}
	w.session.set = limit.Milliseconds()
	err := w.Tx.Commit()
	w.lost = err != nil
	return err
}

// undo rolls back what was not committed and returns the connection to the pool. It may be called
// again.
func (w *writeTx) undo() {
	if w.session == nil {
		return
	}
	if w.Tx != nil {
		if err := w.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			w.lost = true
		}
	}
	if w.lost {
		w.session.discard()
	} else {
		w.session.end(context.Background())
	}
	w.session = nil
}

// end calls undo, and lets the next call write.
func (w *writeTx) end() {
	w.undo()
	w.unlock()
}

// settle finds out the outcome of a COMMIT that failed: the holder of the write lock sees what was
// committed, and the rest never will be.
func (c *claim) settle(ctx context.Context, tx *writeTx, rec retrysafe.Record, failed error) (retrysafe.Record, error) {
	tx.undo() // ends whatever the connection still holds
	whole := context.WithoutCancel(ctx)
	var l loaded
	now := c.clock().UnixMicro()
	wait, cancel := c.patience(whole, time.Time{})
	defer cancel()
	err := c.writeInTurn(wait, func(ctx context.Context, w execer) (bool, error) {
		var err error
		l, err = c.load(ctx, w, c.queries.loadToWrite, c.id)
		return false, err
	})
	if err != nil {
		return rec, fmt.Errorf("%w: COMMIT has failed, and nobody can say what became of it: %w",
			retrysafe.ErrUnconfirmed, errors.Join(c.failed("commit", failed), c.failed("look for the record", err)))
	}
	switch {
	case l.row.Owner == c.r.Owner && l.row.State.Finished():
		return l.row.Record(c.r.Key, now), nil
	case l.row.Owner == c.r.Owner && l.row.State != 0:
		c.ended = &endedError{cause: failed}
		return rec, c.ended
	case ctx.Err() != nil:
		return rec, c.broken(ctx, failed)
	}
	return rec, unavailable(c.failed("COMMIT has failed, and all was rolled back", failed))
}
