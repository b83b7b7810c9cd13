package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Unique guards an INSERT by a unique index on one or more columns: of any number of concurrent
// requests, one inserts the row.
//
// If the row exists already, the call returns [AlreadyApplied] only if the row is this request's
// own, by the digest in the column Key. Otherwise it returns [ErrConflict]: a vote, a name or a
// number that another caller has is not this request's success. The guard lasts as long as the row:
// after the row is deleted, the request can insert it again.
//
// Columns are the columns of the index. They must not be NULL, because to an index NULL equals
// nothing. Key is a column for digests (see [Digest]) that no other code changes. It may be one of
// Columns: then the table only has keys, with the operation beside each. Insert its row in the same
// transaction as the request's other writes.
//
// [Unique.Insert] costs one statement, and a second one if the row exists. On a PostgreSQL table
// with a DEFERRABLE unique constraint it costs two more, for a savepoint. [Unique.Try] is for your
// own INSERT.
//
// Table may be schema.table. A Unique is safe for concurrent use. It is meant to be a package
// variable and must not be copied after its first use.
type Unique struct {
	Table   string
	Columns []string
	Key     string

	fromRequest bool
	plans       planCache
}

// Insert inserts the row of a request. row has all of Columns, but not Key, unless Key is the only
// one.
//
// Errors: [ErrConflict], [ErrMisuse], [ErrLocked], and wrapped errors of the database. After each
// of them, roll back.
func (u *Unique) Insert(ctx context.Context, tx dbtx.Tx, by retrysafe.Key, row Set) (Outcome, error) {
	p, err := u.planFor(ctx, tx)
	if err != nil {
		return 0, err
	}
	digest, err := Digest(by)
	if err != nil {
		return 0, err
	}
	columns, err := row.sortedColumns("the row", false, u.Key)
	if err != nil {
		return 0, err
	}
	if err := u.checkValues(p, row); err != nil {
		return 0, err
	}
	columns = append(columns, u.Key)
	s := newStatement(p.d).insert(p.quoted, "", columns, func(c string) any {
		if c == u.Key {
			return digest
		}
		return row[c]
	})
	if p.d != dbtx.MySQL && !p.deferrable { // there the statement fails and its effects are undone
		// No index is named: a duplicate request conflicts with its row in every index, and which
		// one the database finds first depends on timing.
		s.add(" ON CONFLICT DO NOTHING")
	}
	const tries = 3 // a conflicting row may be deleted before we read it
	for range tries {
		n, err := u.execInsert(ctx, tx, p, s)
		hit, duplicate := DuplicateKey(err)
		switch {
		case err != nil && !duplicate:
			return 0, explainError(p.tableText, err)
		case err == nil && n > 0:
			return Applied, nil
		}
		own, there, looked := u.findRow(ctx, tx, p, digest, row)
		switch {
		case looked != nil:
			return 0, looked
		case own:
			return AlreadyApplied, nil
		case there:
			return 0, p.conflictError(Duplicate{Columns: u.Columns}, nil)
		case duplicate:
			return 0, p.unseenError(ctx, tx, hit, err)
		}
	}
	return 0, p.conflictError(Duplicate{}, nil)
}

// execInsert runs the statement. On a table with deferrable constraints it uses a savepoint, so
// that an error does not abort PostgreSQL's transaction.
func (u *Unique) execInsert(ctx context.Context, tx dbtx.Tx, p *plan, s *statement) (n int64, err error) {
	if !p.deferrable {
		return tx.Exec(ctx, string(s.text), s.args...)
	}
	err = dbtx.Savepoint(ctx, tx, func(ctx context.Context) (err error) {
		n, err = tx.Exec(ctx, string(s.text), s.args...)
		return err
	})
	return n, err
}

// Try runs insert, which is your own INSERT. If it fails with a duplicate key, Try calls same to
// ask whether the row with the values of Columns is this request's own. [Unique.Own] answers that
// from the key column, which insert fills with [Digest]. Try calls same whichever index was hit: a
// duplicate request conflicts with its row in every index, and databases differ in which one they
// name. Try returns any other error of insert unchanged.
//
// On PostgreSQL above READ COMMITTED, a row that was inserted after the snapshot causes a conflict
// but cannot be read. If same has found no row through Own, Try then returns a serialization
// failure (SQLSTATE 40001) and not ErrConflict. If the transaction runs again, as with
// retrysafe.DoTx and RetryWork, it sees the row.
//
// Try puts a savepoint around insert, which costs two more statements. If insert fails, its effects
// are undone and the transaction continues.
func (u *Unique) Try(ctx context.Context, tx dbtx.Tx, insert func(context.Context) error, same func(context.Context) (bool, error)) (Outcome, error) {
	if insert == nil || same == nil {
		return 0, misuseError("Try on table %s needs both functions; same may be one that calls Own", u.Table)
	}
	p, err := u.planFor(ctx, tx)
	if err != nil {
		return 0, err
	}
	var own *insertError
	err = dbtx.Savepoint(ctx, tx, func(ctx context.Context) error {
		if err := insert(ctx); err != nil {
			own = &insertError{err}
			return own
		}
		return nil
	})
	switch {
	case err == nil:
		return Applied, nil
	case own == nil || err != error(own): //nolint:errorlint // the savepoint joins its own error to this one; the effects of insert may still be there
		return 0, explainError(p.tableText+": the savepoint around the INSERT", err)
	}
	err = own.error
	hit, duplicate := DuplicateKey(err)
	switch {
	case !duplicate && strings.Contains(err.Error(), "duplicated key not allowed"):
		return 0, newFailure(ErrMisuse, err, "%s: GORM has put its own error in place of the driver's, so that it is unknown which index was hit; open it without TranslateError", p.tableText)
	case !duplicate:
		return 0, err
	}
	there := false
	switch own, asked := same(context.WithValue(ctx, rowSeenKey{}, &there)); {
	case asked != nil:
		return 0, asked
	case own:
		return AlreadyApplied, nil
	case there:
		return 0, p.conflictError(hit, err)
	}
	return 0, p.unseenError(ctx, tx, hit, err)
}

// insertError wraps an error of insert, to tell it apart from an error of the savepoint.
type insertError struct{ error }

func (f *insertError) Unwrap() error { return f.error }

// rowSeenKey is the context key of a *bool through which Own reports to Try whether there was a
// row.
type rowSeenKey struct{}

// Own reports whether this request inserted the row with these values in Columns. at may have other
// columns, which Own ignores.
func (u *Unique) Own(ctx context.Context, tx dbtx.Tx, by retrysafe.Key, at Set) (bool, error) {
	p, err := u.planFor(ctx, tx)
	if err != nil {
		return false, err
	}
	digest, err := Digest(by)
	if err != nil {
		return false, err
	}
	if err := u.checkValues(p, at); err != nil {
		return false, err
	}
	own, there, err := u.findRow(ctx, tx, p, digest, at)
	if told, ok := ctx.Value(rowSeenKey{}).(*bool); ok {
		*told = there
	}
	return own, err
}

func (u *Unique) planFor(ctx context.Context, tx dbtx.Tx) (*plan, error) {
	p, err := u.plans.planFor(ctx, tx, func() tableSpec {
		return tableSpec{guard: "Unique", table: u.Table, unique: u.Columns, key: u.Key, fromRequest: u.fromRequest}
	})
	if err == nil && u.Key == "" {
		return nil, misuseError("Unique on table %s names no column for the key of the request, without which another's row would be taken for this request's; set Key", u.Table)
	}
	return p, err
}

// checkValues checks that each of Columns has a value of its kind.
func (u *Unique) checkValues(p *plan, row Set) error {
	for _, c := range u.Columns {
		if c == u.Key {
			continue
		}
		if v, ok := row[c]; !ok || isNull(v) {
			return misuseError("the row of table %s has no value for %s, a column of the unique index, or NULL, which is equal to nothing; give it one", u.Table, c)
		}
		if err := p.checkKind(c, row[c]); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unique) findRow(ctx context.Context, tx dbtx.Tx, p *plan, digest string, at Set) (own, there bool, err error) {
	s := newStatement(p.d).add("SELECT CASE WHEN ").name(u.Key).add(" = ").value(digest).add(" THEN 1 ELSE 0 END FROM ", p.quoted, " WHERE ")
	for i, c := range u.Columns {
		if i > 0 {
			s.add(" AND ")
		}
		v := any(digest)
		if c != u.Key {
			v = at[c]
		}
		s.name(c).add(" = ").value(v)
	}
	var n int64
	err = p.queryRow(ctx, tx, s.readCurrent(), &n)
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, nil
	}
	return n == 1, err == nil, err
}

// unseenError returns the error for a duplicate key whose row cannot be found by Columns. Either
// another index was hit, or the row is newer than this transaction's snapshot and may be the
// request's own.
func (p *plan) unseenError(ctx context.Context, tx dbtx.Tx, hit Duplicate, cause error) error {
	if p.d != dbtx.PostgreSQL {
		return p.conflictError(hit, cause)
	}
	var level string
	if err := tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation')", nil, &level); err != nil {
		return explainError(p.tableText, err)
	}
	if level == "read committed" || level == "read uncommitted" {
		// each statement sees all committed rows
		return p.conflictError(hit, cause)
	}
	return &snapshotError{fmt.Sprintf("guard: %s: %s has a row with these values that this transaction, at %s, is too old to see, so that it is unknown whether it is this request's own; begin a new transaction "+
		"and make all of it again; retrysafe.DoTx does with RetryWork. Where that does not help the row is another's: at READ COMMITTED the error says so", p.tableText, hit.describe(), level)}
}

// snapshotError is an error that callers recognize as one of PostgreSQL's serialization failures.
type snapshotError struct{ text string }

func (e *snapshotError) Error() string  { return e.text }
func (*snapshotError) SQLState() string { return stateSerialization }

func (p *plan) conflictError(hit Duplicate, cause error) error {
	return newFailure(ErrConflict, cause, "%s: %s has a row with these values already, and not of this request; roll back, and tell the client that they are taken", p.tableText, hit.describe())
}
