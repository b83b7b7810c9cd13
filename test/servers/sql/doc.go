// Package sql tests the stores on PostgreSQL, MariaDB and SQLite: locks, waits, settings, failures
// and processes that share a database.
package sql
