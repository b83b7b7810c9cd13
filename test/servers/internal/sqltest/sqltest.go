// Package sqltest opens databases, and SQLite files whose driver fails on demand.
package sqltest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Open opens a database, and closes it when the test ends.
func Open(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	assert.NoError(tb, err, "open the database")
	db.SetMaxIdleConns(16) // a server's session is a process, which is slow to start
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Exec runs a statement that must succeed.
func Exec(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string, args ...any,
) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	assert.NoError(t, err, "%s", query)
}

// Count counts the rows of a table.
func Count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n), "count %s", table)
	return n
}
