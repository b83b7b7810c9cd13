package sqlranges

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Dialect is the kind of database.
type Dialect = dbtx.Dialect

// The dialects.
const (
	SQLite     = dbtx.SQLite
	PostgreSQL = dbtx.PostgreSQL
	MySQL      = dbtx.MySQL // also MariaDB
)

// DefaultTable is the default name of the table.
const DefaultTable = "retrysafe_ids"

// Options configures a source. A nil *Options and zero fields mean the defaults. All processes of
// one source must use the same.
type Options struct {
	// Table is the name of the table; default [DefaultTable]. Leaf's table is leaf_alloc. Letters,
	// digits and underscores, at most 40.
	Table string
	// Logger gets warnings about settings under which values can be assigned twice; default
	// slog.Default().
	Logger *slog.Logger
}

// Ranges is a source of ranges in a database. All methods are safe for concurrent use. There is
// nothing to close: the database is the caller's.
type Ranges struct {
	db      *sql.DB
	dialect Dialect
	table   string // quoted
	name    string
	logger  *slog.Logger
	// sql.ErrNoRows means that nothing was changed.
	takeRange func(ctx context.Context, tag string, n int64) (next, count int64, err error)
}

var _ idgen.Ranges = (*Ranges)(nil)

const longestTable = 40

// New returns a source on db. It checks only its arguments; [Ranges.Migrate] creates the table. It
// works with the drivers that sqlstore supports.
func New(db *sql.DB, d Dialect, o *Options) (*Ranges, error) {
	if o == nil {
		o = new(Options)
	}
	r := &Ranges{db: db, dialect: d, name: o.Table, logger: o.Logger}
	if r.name == "" {
		r.name = DefaultTable
	}
	if r.logger == nil {
		r.logger = slog.Default()
	}
	badName := sqlkit.CheckTable(r.name, longestTable)
	switch {
	case db == nil:
		return nil, errors.New("sqlranges: New needs a database; open one with sql.Open")
	case badName != nil:
		return nil, fmt.Errorf("sqlranges: %w", badName)
	case !sqlkit.Known(d):
		return nil, fmt.Errorf("sqlranges: dialect %d is unknown; use sqlranges.SQLite, sqlranges.PostgreSQL or sqlranges.MySQL", d)
	}
	r.table = sqlkit.Quote(d, r.name)
	r.takeRange = sqlkit.Choose(d, r.takeSQLite, r.takePostgres, r.takeMySQL)
	return r, nil
}

// Create creates a tag with its first value, and with at least step values in each range. An
// existing tag stays unchanged, and created is false. If ids of the tag are in use already, first
// must be above all of them.
func (r *Ranges) Create(ctx context.Context, tag string, first, step int64) (created bool, err error) {
	if err := idgen.CheckNew(tag, first, step); err != nil {
		return false, err
	}
	query := `INSERT INTO ` + r.table + ` (biz_tag, max_id, step) VALUES (?, ?, ?)`
	if r.dialect != MySQL {
		query += ` ON CONFLICT (biz_tag) DO NOTHING`
	}
	query = sqlkit.Placeholders(r.dialect, query)
	err = sqlkit.Retry(ctx, func() error {
		tx, err := r.db.BeginTx(ctx, nil) // also works for connections without autocommit
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // in case it was not committed
		n, err := sqlkit.Affected(tx.ExecContext(ctx, query, tag, first, step))
		if r.dialect == MySQL && sqlkit.ClassOf(err) == sqlkit.UniqueViolation {
			return nil // there is such a tag
		}
		if err != nil {
			return err
		}
		created = n > 0
		return tx.Commit()
	})
	return created, r.explainError("make a tag", err)
}

// Allocate implements [idgen.Ranges]. A range has as many values as the tag's column step says, or
// n if that is more.
func (r *Ranges) Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error) {
	if err := idgen.CheckTag(tag); err != nil {
		return 0, 0, err
	}
	if n < 1 {
		return 0, 0, fmt.Errorf("sqlranges: Allocate of %d values; ask for 1 or more", n)
	}
	var next int64
	err = sqlkit.Retry(ctx, func() (err error) {
		next, count, err = r.takeRange(ctx, tag, n)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, 0, r.explainError("take a range", r.noRangeError(ctx, tag))
	case err != nil:
		return 0, 0, r.explainError("take a range", err)
	case next-count < 1:
		return 0, 0, errors.New("sqlranges: take a range: the database has answered with a number that it cannot have; is there a proxy in between?")
	}
	return next - count, count, nil
}

// noRangeError returns the error that says why there is no range.
func (r *Ranges) noRangeError(ctx context.Context, tag string) error {
	var there int64
	err := r.db.QueryRowContext(ctx, sqlkit.Placeholders(r.dialect, `SELECT count(*) FROM `+r.table+` WHERE biz_tag = ?`), tag).Scan(&there)
	switch {
	case err != nil:
		return err
	case there == 0:
		return idgen.ErrNoTag
	}
	return idgen.ErrSpent
}
