package guard

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// tableSpec is what a guard needs of its table.
type tableSpec struct {
	// guard is its name in errors.
	guard, table string
	// unique are the columns of the unique index that it needs.
	unique []string
	// column is another column that it uses, or empty.
	column string
	// key is the column of digests, or empty.
	key string
	// moment reports whether column is a time with microseconds.
	moment bool
	// fromRequest reports whether the values of unique come from the request. The database must not
	// assign them.
	fromRequest bool
}

// plan is a spec on one kind of database, after the catalogue was checked.
type plan struct {
	tableSpec
	d dbtx.Dialect
	// tableText is the table as errors name it. quoted is the table as statements name it.
	tableText, quoted string
	// deferrable reports whether, on PostgreSQL, the table has a unique constraint that may be
	// checked when the transaction commits. ON CONFLICT does not support those.
	deferrable bool
	// kinds are the kinds of the columns of the unique index.
	kinds []columnKind
}

// planCache caches one plan for each kind of database that a guard was used on. It does not cache a
// check that failed; the next call checks again. It is safe for concurrent use and must not be
// copied.
type planCache struct {
	byDialect [dbtx.MySQL + 1]atomic.Pointer[plan]
}

// planFor checks that tx is a transaction, and returns the plan for its database. The first call
// checks the catalogue.
func (p *planCache) planFor(ctx context.Context, tx dbtx.Tx, s func() tableSpec) (*plan, error) {
	if tx == nil {
		return nil, misuseError("the transaction is nil; begin one, and give the guard dbtx.SQL(tx, …) of it")
	}
	if !dbtx.InTransaction(tx) {
		return nil, misuseError("the guard was given a connection and no transaction, so that each statement would commit by itself; call BeginTx and give it dbtx.SQL(tx, …), " +
			"or dbtx.Begun(conn, …) where the transaction was begun by a statement")
	}
	d := tx.Dialect()
	if d < dbtx.SQLite || d > dbtx.MySQL {
		return nil, misuseError("%s is not known; use dbtx.SQLite, dbtx.PostgreSQL or dbtx.MySQL", d)
	}
	if known := p.byDialect[d].Load(); known != nil {
		return known, nil
	}
	made := &plan{tableSpec: s(), d: d}
	if err := made.checkNames(); err != nil {
		return nil, err
	}
	made.tableText, made.quoted = "table "+made.table, quoteTable(d, made.table)
	if err := made.checkCatalogue(ctx, tx); err != nil {
		return nil, err
	}
	p.byDialect[d].Store(made)
	return made, nil
}

// checkNames checks the names.
func (s *tableSpec) checkNames() error {
	if err := checkTable(s.table); err != nil {
		return err
	}
	if len(s.unique) == 0 {
		return misuseError("%s on table %s names no column of a unique index; name those that tell one row from another", s.guard, s.table)
	}
	for i, c := range s.unique {
		if err := checkName("a column", c); err != nil {
			return err
		}
		if hasName(s.unique[:i], c) {
			return misuseError("%s on table %s names the column %s twice; leave one out", s.guard, s.table, c)
		}
	}
	for _, c := range []string{s.column, s.key} {
		if c == "" {
			continue
		}
		if err := checkName("a column", c); err != nil {
			return err
		}
	}
	if s.column != "" && (hasName(s.unique, s.column) || sameName(s.column, s.key)) {
		return misuseError("%s on table %s uses the column %s for two things; each needs one of its own", s.guard, s.table, s.column)
	}
	return nil
}

// run executes a statement.
func (p *plan) run(ctx context.Context, tx dbtx.Tx, s *statement) (int64, error) {
	if err := p.checkKinds(s); err != nil {
		return 0, err
	}
	n, err := tx.Exec(ctx, string(s.text), s.args...)
	return n, explainError(p.tableText, err)
}

// queryRow scans the one row of a statement. It returns sql.ErrNoRows unwrapped.
func (p *plan) queryRow(ctx context.Context, tx dbtx.Tx, s *statement, dest ...any) error {
	if err := p.checkKinds(s); err != nil {
		return err
	}
	err := tx.QueryRow(ctx, string(s.text), s.args, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return explainError(p.tableText, err)
}

// checkKinds returns an error if a value in a statement is not of the kind of its column.
func (p *plan) checkKinds(s *statement) error {
	for _, b := range s.compared {
		if err := p.checkKind(b.column, b.value); err != nil {
			return err
		}
	}
	return nil
}

// runOnRow runs a write that must match at most one row. If it matches more, the database compared
// the id as another value than it is.
func (p *plan) runOnRow(ctx context.Context, tx dbtx.Tx, s *statement) (bool, error) {
	n, err := p.run(ctx, tx, s)
	if err == nil && n > 1 {
		return false, misuseError("%s: the id has met %d rows, since the database compares it with the column as another type; roll back, and give the id as the type "+
			"that the column has", p.tableText, n)
	}
	return n == 1, err
}

// createIndex returns the statement that creates the missing index.
func (p *plan) createIndex() string {
	_, table := splitTable(p.table)
	name := table + "_" + strings.Join(p.unique, "_") + "_key"
	if len(name) > maxName {
		name = name[:maxName]
	}
	columns := make([]string, len(p.unique))
	for i, c := range p.unique {
		columns[i] = quoteName(p.d, c)
	}
	return "CREATE UNIQUE INDEX " + quoteName(p.d, strings.ToValidUTF8(name, "")) + " ON " + p.quoted + " (" + strings.Join(columns, ", ") + ")"
}
