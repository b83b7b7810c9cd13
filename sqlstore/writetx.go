package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// writeTx is a transaction of database/sql that has the file's write lock.
type writeTx struct {
	*sql.Tx
	db      *database
	session *session
	unlock  func()
	lost    bool // the connection is in an unknown state
}

func (w *writeTx) open(ctx context.Context, first func(*sql.Tx) error) error {
	tx, err := w.session.BeginTx(ctx, nil)
	if err != nil {
		w.lost = !sqliteBusy(err) // the transaction may have begun
		return err
	}
	if err := first(tx); err != nil {
		w.lost = tx.Rollback() != nil
		return err
	}
	w.Tx = tx
	return nil
}

// errAttached refuses a transaction that could commit only in part.
const errAttached = stateError("sqlstore: the connection has another file attached, and a commit is atomic for each file by itself; detach it, or use " +
	"a *sql.DB of its own for what needs it")

// otherFiles returns a row for each attached file of a connection, and countOtherFiles their
// number.
const (
	otherFiles      = "SELECT 1 FROM pragma_database_list WHERE name NOT IN ('main', 'temp')"
	countOtherFiles = "SELECT count(*) FROM (" + otherFiles + ")"
)

// oneFile refuses a connection with attached files: the record could commit without the effect, or
// the effect without the record. read reads the row of countOtherFiles.
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
	limit := w.db.lockWait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(0, time.Until(end)))
	}
	return w.commitWithin(ctx, limit)
}

// commitWithin is commit with a limit for the wait for readers. If they are still there after that,
// nothing was committed.
func (w *writeTx) commitWithin(ctx context.Context, limit time.Duration) error {
	wal, err := w.db.writesAhead(ctx, w.Tx)
	if err != nil {
		return err
	}
	if !wal {
		if _, err := w.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", limit.Milliseconds())); err != nil {
			return err
		}
		w.session.set = limit.Milliseconds()
	}
	err = w.Tx.Commit()
	if w.lost = err != nil; w.lost {
		w.db.journal.Store(nil) // perhaps it was changed
	}
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
		sqlkit.Discard(w.session.Conn)
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

// begin opens a transaction for the caller's work. It ends with ctx.
func (d *database) begin(ctx context.Context) (*writeTx, error) {
	tx, err := d.beginWith(ctx, func(tx *sql.Tx) error { return d.lockFile(ctx, tx) })
	if err != nil {
		return nil, err
	}
	if err := oneFile(tx.QueryRowContext(ctx, countOtherFiles).Scan); err != nil {
		tx.end()
		return nil, err
	}
	return tx, nil
}

// lockFile takes the file's write lock with a statement that changes nothing. A transaction of
// database/sql begins without the lock. If it read first and another process wrote in between, it
// could not get the lock any more.
func (d *database) lockFile(ctx context.Context, tx sqlkit.Execer) error {
	_, err := tx.ExecContext(ctx, d.queries().lock)
	return err
}

// beginWith opens a transaction whose first statement is made by first, and takes the file's write
// lock. It tries again while the file is busy.
func (d *database) beginWith(ctx context.Context, first func(*sql.Tx) error) (*writeTx, error) {
	wait, cancel := d.patience(ctx, time.Time{})
	defer cancel()
	unlock, err := d.turn(wait)
	if err != nil {
		return nil, wait.over(err)
	}
	tx := &writeTx{db: d, unlock: unlock}
	if tx.session, err = d.session(wait); err != nil {
		unlock()
		return nil, wait.over(err)
	}
	if err := retry(wait, func() error { return tx.open(ctx, first) }); err != nil {
		tx.end()
		return nil, wait.over(err)
	}
	return tx, nil
}

// writesAhead reports whether the journal is a WAL. It asks once, and again after a COMMIT has
// failed: the mode of a file in use hardly ever changes.
func (d *database) writesAhead(ctx context.Context, tx sqlkit.Execer) (bool, error) {
	if mode := d.journal.Load(); mode != nil {
		return *mode == "wal", nil
	}
	var mode string
	if err := tx.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return false, err
	}
	d.journal.Store(&mode)
	return mode == "wal", nil
}

// write runs f in a transaction that has the file's write lock from its beginning, and commits if f
// says so. The context of f does not end: once the lock is held, the rest is short and must not be
// interrupted.
func (d *database) write(ctx context.Context, notAfter time.Time, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error {
	wait, cancel := d.patience(ctx, notAfter)
	defer cancel()
	unlock, err := d.turn(wait)
	if err != nil {
		return wait.over(err)
	}
	defer unlock()
	return d.writeInTurn(wait, f)
}

// writeInTurn is write for a caller that has the turn.
func (d *database) writeInTurn(wait patience, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error {
	w, err := d.session(wait)
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
			sqlkit.Discard(w.Conn) // SQLite rolls back what may have begun
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
		sqlkit.Discard(w.Conn)
		return wait.over(err)
	}
	w.end(whole)
	return nil
}

// turn waits until no other call of this store writes.
func (d *database) turn(wait patience) (unlock func(), err error) {
	select {
	case d.writer <- struct{}{}:
		return func() { <-d.writer }, nil
	case <-wait.Done():
		return nil, wait.Err()
	}
}
