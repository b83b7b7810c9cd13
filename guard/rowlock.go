package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// RowLock guards what is decided in Go on what a row says: look, lock the row, look again, and
// write.
//
//	SELECT amount FROM account WHERE id = ?             -- a request that is refused anyway waits for nobody
//	SELECT amount FROM account WHERE id = ? FOR UPDATE  -- what it says now stays so until the transaction ends
//
// That is one statement more than to read and to write. Everybody else who locks the row waits:
// keep the transaction short, and lock rows in one order in all places.
//
// It is no guard against repeats, since a retry finds the row free and does the work again: use it
// inside of retrysafe.DoTx, which keeps the request's key in the same transaction. And a refusal by
// check is no sign of a repeat.
//
// The first look sees what the transaction sees. At REPEATABLE READ, which MySQL begins with, that
// is the state of its first statement, so that an old one may refuse by an old state: let the lock
// be the first statement, or use READ COMMITTED, as DoTx does. At a level above READ COMMITTED
// PostgreSQL ends the transaction with a serialization failure where the row was changed since.
//
// On SQLite, where a writer has the whole file, the lock is the file's, and there is one look
// behind it. A deferred transaction that has read before, while another has written, is refused
// with [ErrLocked]: begin it with BEGIN IMMEDIATE.
//
// Table may be schema.table. ID is a column with a unique index. Columns are what is read. A
// RowLock is safe for concurrent use, is meant to be a variable of the package, and must not be
// copied after its first use.
type RowLock struct {
	Table, ID string
	Columns   []string
	// Wait is how long to wait for the row: zero as long as the database's settings say, less than
	// zero not at all. MySQL counts in whole seconds, rounded up, and a Wait costs it two
	// statements more, which set its session and put it back. SQLite waits as long as its
	// busy_timeout says.
	Wait time.Duration

	plans plans
}

// Lock reads Columns into dest, calls check, locks the row, reads again and calls check again. An
// error of check is returned as it is. When Lock returns nil, dest is what the row says, until the
// transaction ends or writes to it.
//
// Errors: [ErrLocked] where the wait was too long, [ErrMissing], [ErrMisuse], those of the
// database, wrapped. After each roll back.
func (l *RowLock) Lock(ctx context.Context, tx dbtx.Tx, id any, check func() error, dest ...any) error {
	p, err := l.plans.open(ctx, tx, func() spec {
		return spec{guard: "RowLock", table: l.Table, unique: []string{l.ID}}
	})
	if err != nil {
		return err
	}
	switch {
	case len(l.Columns) == 0:
		return misuse("RowLock on table %s names no columns to read; set Columns to those that the check looks at", l.Table)
	case len(dest) != len(l.Columns):
		return misuse("RowLock on table %s reads %d columns and was given %d places to put them; give one for each", l.Table, len(l.Columns), len(dest))
	case check == nil:
		return misuse("RowLock on table %s was given no check; give the function that looks at what was read", l.Table)
	}
	for _, c := range l.Columns {
		if err := checkName("a column", c); err != nil {
			return err
		}
	}
	if err := checkID(id); err != nil {
		return err
	}
	switch p.d {
	case dbtx.SQLite:
		if err := p.lockFile(ctx, tx); err != nil {
			return err
		}
		if err := l.read(ctx, tx, p, l.selectRow(p, id), dest); err != nil {
			return err
		}
		return check()
	default:
		switch err := l.read(ctx, tx, p, l.selectRow(p, id), dest); {
		case errors.Is(err, ErrMissing): // it may be new since the transaction began to see
		case err != nil:
			return err
		default:
			if err := check(); err != nil {
				return err
			}
		}
	}
	if err := l.lock(ctx, tx, p, id, dest); err != nil {
		return err
	}
	return check()
}

func (l *RowLock) selectRow(p *plan, id any) *statement {
	s := newStatement(p.d).add("SELECT ")
	for i, c := range l.Columns {
		if i > 0 {
			s.add(", ")
		}
		s.name(c)
	}
	return s.add(" FROM ", p.quoted, " WHERE ").name(l.ID).add(" = ").value(id)
}

func (l *RowLock) read(ctx context.Context, tx dbtx.Tx, p *plan, s *statement, dest []any) error {
	err := p.row(ctx, tx, s, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return p.missing()
	}
	return err
}

func (l *RowLock) lock(ctx context.Context, tx dbtx.Tx, p *plan, id any, dest []any) error {
	switch {
	case l.Wait < 0:
		return l.read(ctx, tx, p, l.selectRow(p, id).add(" FOR UPDATE NOWAIT"), dest)
	case l.Wait > 0 && p.d == dbtx.PostgreSQL:
		return l.lockWithin(ctx, tx, p, id, dest)
	case l.Wait > 0:
		seconds := int64((l.Wait + time.Second - 1) / time.Second)
		set := fmt.Sprintf("SET @retrysafe_guard = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = %d", seconds)
		if _, err := tx.Exec(ctx, set); err != nil {
			return explain(p.where+": limit the wait for locks", err)
		}
		err := l.read(ctx, tx, p, l.selectRow(p, id).add(" FOR UPDATE"), dest)
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, failed := tx.Exec(back, "SET innodb_lock_wait_timeout = @retrysafe_guard"); failed != nil && err == nil {
			return explain(p.where+": put the limit of waits for locks back", failed)
		}
		return err
	}
	return l.read(ctx, tx, p, l.selectRow(p, id).add(" FOR UPDATE"), dest)
}

// lockWithin sets lock_timeout, locks, and puts lock_timeout back, in one statement: the innermost
// part is made first, and each part reads from the one inside of it. Where no row is found or the
// wait was too long, the rollback puts it back.
func (l *RowLock) lockWithin(ctx context.Context, tx dbtx.Tx, p *plan, id any, dest []any) error {
	s := newStatement(p.d).add("WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS v), ")
	s.add("now AS MATERIALIZED (SELECT set_config('lock_timeout', ").value(strconv.FormatInt(max(1, l.Wait.Milliseconds()), 10)).add(", true) AS v FROM before), ")
	s.add("locked AS MATERIALIZED (SELECT t.* FROM ", p.quoted, " AS t, now WHERE t.").name(l.ID).add(" = ").value(id).add(" AND now.v IS NOT NULL FOR UPDATE OF t), ")
	s.add("after AS MATERIALIZED (SELECT count(*) AS n FROM locked), ")
	s.add("back AS MATERIALIZED (SELECT set_config('lock_timeout', before.v, true) AS v FROM before, after WHERE after.n >= 0) SELECT ")
	for i, c := range l.Columns {
		if i > 0 {
			s.add(", ")
		}
		s.add("locked.").name(c)
	}
	s.add(" FROM back, locked WHERE back.v IS NOT NULL")
	return l.read(ctx, tx, p, s, dest)
}
