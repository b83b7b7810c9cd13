package sqlkit

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Statements splits a script, since some drivers take only one statement at a time, and replaces
// the default name of its tables, and so the beginning of the names of all that belongs to them.
func Statements(script, defaultName, table string) []string {
	var all []string
	for part := range strings.SplitSeq(strings.ReplaceAll(script, defaultName, table), ";\n") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// Migrate runs f on a connection while no other process migrates this table. It waits for other
// migrations and transactions until ctx ends. On SQLite and PostgreSQL f runs in a transaction.
// MySQL commits each statement that creates a table, so f must be safe to repeat. f may run again
// after another transaction was in its way.
func Migrate(ctx context.Context, db *sql.DB, d dbtx.Dialect, table string, f func(context.Context, Execer) error) error {
	return Retry(ctx, func() error { return migrateTable(ctx, db, d, table, f) })
}

func migrateTable(ctx context.Context, db *sql.DB, d dbtx.Dialect, table string, f func(context.Context, Execer) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if done {
			_ = conn.Close()
		} else {
			Discard(conn) // also if f panics
		}
	}()
	if begin := Choose(d, `BEGIN IMMEDIATE`, `BEGIN ISOLATION LEVEL READ COMMITTED`, ``); begin != "" {
		if _, err := conn.ExecContext(ctx, begin); err != nil {
			return err
		}
	}
	for locked := false; !locked; {
		if locked, err = LockMigration(ctx, conn, d, table, time.Second); err != nil {
			return err
		}
	}
	if err := f(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `COMMIT`); err != nil { // on MySQL: if autocommit is off
		return err
	}
	if err := UnlockMigration(ctx, conn, d, table); err != nil {
		return err
	}
	done = true
	return nil
}

// mysqlLock is the name of the lock of a migration. Such names are global to the server and have at
// most 64 bytes.
const mysqlLock = `CONCAT('retrysafe migrates ', MD5(CONCAT(coalesce(DATABASE(), ''), '/', ?)))`

// LockMigration keeps other processes from migrating the table. On PostgreSQL the lock lasts until
// the transaction of db ends, and the wait for it until ctx does. On MySQL the lock belongs to the
// connection until [UnlockMigration]; after the wait, LockMigration returns false. SQLite needs no
// lock: db has begun a transaction that writes.
func LockMigration(ctx context.Context, db Execer, d dbtx.Dialect, table string, wait time.Duration) (locked bool, err error) {
	switch d {
	case dbtx.PostgreSQL:
		_, err = db.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "retrysafe migrates "+table)
	case dbtx.MySQL:
		var got int
		err = db.QueryRowContext(ctx, `SELECT coalesce(GET_LOCK(`+mysqlLock+`, ?), 0)`, table, wait.Seconds()).Scan(&got)
		return got == 1, err
	}
	return err == nil, err
}

// UnlockMigration releases the lock on MySQL. If it fails, the connection is lost, and the lock
// with it. On the other databases it does nothing.
func UnlockMigration(ctx context.Context, db Execer, d dbtx.Dialect, table string) error {
	if d != dbtx.MySQL {
		return nil
	}
	_, err := db.ExecContext(ctx, `DO RELEASE_LOCK(`+mysqlLock+`)`, table)
	return err
}
