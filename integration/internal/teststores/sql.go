// Package teststores returns stores that are ready on a database, and requests for them.
package teststores

import (
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// OpenMySQL opens a separate pool.
func OpenMySQL(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("mysql", dsn)
	assert.NoError(tb, err, "open the database")
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// NewMySQL returns a store on a pool, whose tables may be missing.
func NewMySQL(tb testing.TB, db *sql.DB, o *sqlstore.Options) *sqlstore.Store {
	tb.Helper()
	var own sqlstore.Options
	if o != nil {
		own = *o
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	if own.LockWait == 0 {
		own.LockWait = waits.Patience
	}
	s, err := sqlstore.New(db, sqlstore.MySQL, &own)
	assert.NoError(tb, err, "a store on MySQL")
	return s
}

// MySQL returns a store that is ready, on a separate pool.
func MySQL(tb testing.TB, dsn string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	db := OpenMySQL(tb, dsn)
	s := NewMySQL(tb, db, o)
	patient := sqlstore.Options{}
	if o != nil {
		patient.Table = o.Table
	}
	assert.NoError(tb, NewMySQL(tb, db, &patient).Migrate(tb.Context()), "Migrate")
	return s, db
}

// tables counts the stores of tests that share a server.
var tables atomic.Int64

// NewTable returns a name that no other test uses.
func NewTable() string { return fmt.Sprintf("records_%d", tables.Add(1)) }

// Postgres returns a store that is ready, on a separate pool.
func Postgres(tb testing.TB, url string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	assert.NoError(tb, err, "open the database")
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	tb.Cleanup(func() { _ = db.Close() })
	var own sqlstore.Options
	if o != nil {
		own = *o
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	if own.LockWait == 0 {
		own.LockWait = waits.Patience
	}
	s, err := sqlstore.New(db, sqlstore.PostgreSQL, &own)
	assert.NoError(tb, err, "a store on PostgreSQL")
	patient := own
	patient.LockWait = waits.Patience
	first, err := sqlstore.New(db, sqlstore.PostgreSQL, &patient)
	assert.NoError(tb, err, "a store that waits")
	assert.NoError(tb, first.Migrate(tb.Context()), "Migrate")
	return s, db
}

// NewSQLite returns a store that was not migrated.
func NewSQLite(t *testing.T, db *sql.DB, o *sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(db, sqlstore.SQLite, o)
	assert.NoError(t, err, "New")
	return s
}

// OpenSQLite opens a file, and returns a store that is ready.
func OpenSQLite(t *testing.T, path string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	t.Helper()
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path))
	return SQLite(t, db, o), db
}

// SQLite returns a store on an SQLite database, with its tables. o may be nil.
func SQLite(t *testing.T, db *sql.DB, o *sqlstore.Options) *sqlstore.Store {
	t.Helper()
	var own sqlstore.Options
	if o != nil {
		own = *o
	}
	if own.LockWait == 0 {
		own.LockWait = waits.Patience
	}
	s, err := sqlstore.New(db, sqlstore.SQLite, &own)
	assert.NoError(t, err, "a store on SQLite")
	assert.NoError(t, s.Migrate(t.Context()), "Migrate")
	return s
}
