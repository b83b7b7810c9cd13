package sqlkit

import (
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Known reports whether d is one of the dialects of package dbtx.
func Known(d dbtx.Dialect) bool { return d >= dbtx.SQLite && d <= dbtx.MySQL }

// Choose returns the value for the dialect, and the zero value for an unknown one.
func Choose[T any](d dbtx.Dialect, sqlite, postgres, mysql T) (v T) {
	switch d {
	case dbtx.SQLite:
		return sqlite
	case dbtx.PostgreSQL:
		return postgres
	case dbtx.MySQL:
		return mysql
	}
	return v
}

// Quote returns a name that [CheckTable] accepts, or a key word, as an identifier.
func Quote(d dbtx.Dialect, name string) string {
	q := Choose(d, `"`, `"`, "`")
	return q + name + q
}

// Empty returns the literal of a value of no bytes.
func Empty(d dbtx.Dialect) string { return Choose(d, `x''`, `''`, `''`) }

// Placeholders returns a statement with the placeholders of the dialect in place of question marks:
// $1, $2 and so on on PostgreSQL. The statement has no question mark in a literal or a comment.
func Placeholders(d dbtx.Dialect, query string) string {
	if d == dbtx.PostgreSQL {
		return Numbered(query)
	}
	return query
}

// Numbered replaces question marks with $1, $2 and so on.
func Numbered(query string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// In returns the condition that a column has one of n values, with question marks as placeholders.
func In(n int) string { return `IN (` + List(n) + `)` }

// List returns n question marks, separated by commas.
func List(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// The database's clock in microseconds since the Unix epoch, whatever the session's time zone.
const (
	SQLiteClock            = `CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)`
	PostgresClock          = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	PostgresStatementClock = `(extract(epoch FROM statement_timestamp()) * 1000000)::bigint`
	MySQLStatementClock    = `TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))`
)

// StatementClock returns the time at which the statement began. On SQLite it is the time when the
// file was locked.
func StatementClock(d dbtx.Dialect) string {
	return Choose(d, SQLiteClock, PostgresStatementClock, MySQLStatementClock)
}
