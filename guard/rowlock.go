package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// RowLock guards a decision that Go code makes from a row: read the row, lock it, read it again,
// and write.
//
//	SELECT amount FROM account WHERE id = ?             -- a request that is refused anyway waits for nobody
//	SELECT amount FROM account WHERE id = ? FOR UPDATE  -- what it says now stays so until the transaction ends
//
// This costs one statement more than a read and a write. Every other transaction that locks the row
// waits. Keep the transaction short, and lock rows in the same order everywhere.
//
// It does not detect duplicates: a retry finds the row unlocked and does the work again. Use it
// inside retrysafe.DoTx, which keeps the request's key in the same transaction. An error of check
// does not mean that the request is a duplicate.
//
// The first read sees the transaction's snapshot. At REPEATABLE READ, which is MySQL's default,
// that is the state at its first statement, so an old transaction may refuse because of an old
// state. Make the lock the first statement, or use READ COMMITTED, as DoTx does. Above READ
// COMMITTED, PostgreSQL aborts the transaction with a serialization failure if the row changed
// after the snapshot.
//
// On SQLite a writer locks the whole file, so the lock is the file's, and there is only one read,
// after the lock. If a deferred transaction has read before another one wrote, the lock fails with
// [ErrLocked]. Begin it with BEGIN IMMEDIATE.
//
// Table may be schema.table. ID is a column with a unique index. Columns are the columns to read. A
// RowLock is safe for concurrent use. It is meant to be a package variable and must not be copied
// after its first use.
type RowLock struct {
	Table, ID string
	Columns   []string
	// Wait is how long to wait for the row. Zero means as long as the database's settings say. A
	// negative value means not at all. MySQL counts in whole seconds, rounded up, and a Wait costs
	// two more statements there, which set its session variable and restore it. SQLite always waits
	// as long as its busy_timeout says.
	Wait time.Duration

	plans planCache
}

// Lock reads Columns into dest, calls check, locks the row, reads it again and calls check again.
// It returns an error of check unchanged. When Lock returns nil, dest stays valid until the
// transaction ends or writes to the row.
//
// Errors: [ErrLocked] if the wait was too long, [ErrMissing], [ErrMisuse], and wrapped errors of
// the database. After each of them, roll back.
func (l *RowLock) Lock(ctx context.Context, tx dbtx.Tx, id any, check func() error, dest ...any) error {
	p, err := l.plans.planFor(ctx, tx, func() tableSpec {
		return tableSpec{guard: "RowLock", table: l.Table, unique: []string{l.ID}}
	})
	if err != nil {
		return err
	}
	switch {
	case len(l.Columns) == 0:
		return misuseError("RowLock on table %s names no columns to read; set Columns to those that the check looks at", l.Table)
	case len(dest) != len(l.Columns):
		return misuseError("RowLock on table %s reads %d columns and was given %d places to put them; give one for each", l.Table, len(l.Columns), len(dest))
	case check == nil:
		return misuseError("RowLock on table %s was given no check; give the function that looks at what was read", l.Table)
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
		if err := l.readRow(ctx, tx, p, l.selectRow(p, id), dest); err != nil {
			return err
		}
		return check()
	default:
		switch err := l.readRow(ctx, tx, p, l.selectRow(p, id), dest); {
		case errors.Is(err, ErrMissing): // the row may be newer than the transaction's snapshot
		case err != nil:
			return err
		default:
			if err := check(); err != nil {
				return err
			}
		}
	}
	if err := l.lockRow(ctx, tx, p, id, dest); err != nil {
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

func (l *RowLock) readRow(ctx context.Context, tx dbtx.Tx, p *plan, s *statement, dest []any) error {
	err := p.queryRow(ctx, tx, s, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return p.missingError()
	}
	return err
}

func (l *RowLock) lockRow(ctx context.Context, tx dbtx.Tx, p *plan, id any, dest []any) error {
	switch {
	case l.Wait < 0:
		return l.readRow(ctx, tx, p, l.selectRow(p, id).add(" FOR UPDATE NOWAIT"), dest)
	case l.Wait > 0 && p.d == dbtx.PostgreSQL:
		return l.lockWithin(ctx, tx, p, id, dest)
	case l.Wait > 0:
		seconds := int64((l.Wait + time.Second - 1) / time.Second)
		set := fmt.Sprintf("SET @retrysafe_guard = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = %d", seconds)
		if _, err := tx.Exec(ctx, set); err != nil {
			return explainError(p.tableText+": limit the wait for locks", err)
		}
		err := l.readRow(ctx, tx, p, l.selectRow(p, id).add(" FOR UPDATE"), dest)
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, failed := tx.Exec(back, "SET innodb_lock_wait_timeout = @retrysafe_guard"); failed != nil && err == nil {
			return explainError(p.tableText+": put the limit of waits for locks back", failed)
		}
		return err
	}
	return l.readRow(ctx, tx, p, l.selectRow(p, id).add(" FOR UPDATE"), dest)
}

// lockWithin sets lock_timeout, locks the row and restores lock_timeout, in one statement:
// PostgreSQL evaluates the innermost part first, and each part reads from the one inside it. If it
// finds no row, or waits too long, the rollback restores the setting.
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
	return l.readRow(ctx, tx, p, s, dest)
}
