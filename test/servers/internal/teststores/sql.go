// Package teststores returns stores that are ready on a database, and requests for them.
package teststores

import (
	"cmp"
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// openPool opens a separate pool of ten connections.
func openPool(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	assert.NoError(tb, err, "open the database")
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// newStore returns a store that waits as long as a busy machine needs, and is silent, unless o says
// otherwise. o may be nil.
func newStore(tb testing.TB, db *sql.DB, d sqlstore.Dialect, o *sqlstore.Options) *sqlstore.Store {
	tb.Helper()
	var own sqlstore.Options
	if o != nil {
		own = *o
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	own.LockWait = cmp.Or(own.LockWait, waits.Patience)
	s, err := sqlstore.New(db, d, &own)
	assert.NoError(tb, err, "a store")
	return s
}

// migratedStore returns a store with its tables. Migrate waits as long as it has to, whatever o
// says.
func migratedStore(tb testing.TB, db *sql.DB, d sqlstore.Dialect, o *sqlstore.Options) *sqlstore.Store {
	tb.Helper()
	var patient sqlstore.Options
	if o != nil {
		patient = *o
	}
	patient.LockWait = waits.Patience
	assert.NoError(tb, newStore(tb, db, d, &patient).Migrate(tb.Context()), "Migrate")
	return newStore(tb, db, d, o)
}

// OpenMySQL opens a separate pool.
func OpenMySQL(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	return openPool(tb, "mysql", dsn)
}

// NewMySQL returns a store on a pool, whose tables may be missing.
func NewMySQL(tb testing.TB, db *sql.DB, o *sqlstore.Options) *sqlstore.Store {
	tb.Helper()
	return newStore(tb, db, sqlstore.MySQL, o)
}

// MySQL returns a store that is ready, on a separate pool.
func MySQL(tb testing.TB, dsn string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	db := OpenMySQL(tb, dsn)
	return migratedStore(tb, db, sqlstore.MySQL, o), db
}

// Postgres returns a store that is ready, on a separate pool.
func Postgres(tb testing.TB, url string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	db := openPool(tb, "pgx", url)
	return migratedStore(tb, db, sqlstore.PostgreSQL, o), db
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
	s := newStore(t, db, sqlstore.SQLite, o)
	assert.NoError(t, s.Migrate(t.Context()), "Migrate")
	return s
}

// tables counts the stores of tests that share a server.
var tables atomic.Int64

// NewTable returns a name that no other test uses.
func NewTable() string { return fmt.Sprintf("records_%d", tables.Add(1)) }
