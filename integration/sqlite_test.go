package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
	"github.com/retrysafe/retrysafe/storetest"
)

// sqliteDSN returns the recommended DSN for path, followed by more pragmas. A path may have any
// character.
func sqliteDSN(path string, pragmas ...string) string {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	for _, p := range pragmas {
		dsn += "&_pragma=" + p
	}
	return dsn
}

func openDB(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	assert.NoError(tb, err, "open the database")
	db.SetMaxIdleConns(16) // a server's session is a process, which is slow to start
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// openSQLite opens a file, and returns a store that is ready.
func openSQLite(t *testing.T, path string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	t.Helper()
	db := openDB(t, "sqlite", sqliteDSN(path))
	return migrated(t, db, o), db
}

func migrated(t *testing.T, db *sql.DB, o *sqlstore.Options) *sqlstore.Store {
	t.Helper()
	var own sqlstore.Options
	if o != nil {
		own = *o
	}
	if own.LockWait == 0 {
		own.LockWait = patience
	}
	s, err := sqlstore.New(db, sqlstore.SQLite, &own)
	assert.NoError(t, err, "a store on SQLite")
	assert.NoError(t, s.Migrate(t.Context()), "Migrate")
	return s
}

// newFile returns the path of a database that does not exist yet.
func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "app.db")
}

func execSQL(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string, args ...any,
) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	assert.NoError(t, err, "%s", query)
}

func count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n), "count %s", table)
	return n
}

// holdFile opens a transaction that holds the file's write lock, on a separate handle, as another
// process would.
func holdFile(t *testing.T, path string, statements ...string) (release func()) {
	t.Helper()
	db := openDB(t, "sqlite", sqliteDSN(path, "busy_timeout(5000)"))
	conn, err := db.Conn(t.Context())
	assert.NoError(t, err, "a connection")
	for _, q := range append([]string{"BEGIN IMMEDIATE"}, statements...) {
		execSQL(t, conn, q)
	}
	return sync.OnceFunc(func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		_ = conn.Close()
		_ = db.Close()
	})
}

func TestSQLiteStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		path, clock := newFile(t), storetest.NewClock()
		o := &sqlstore.Options{Clock: clock.Now}
		store, _ := openSQLite(t, path, o)
		return storetest.Backend{
			Store: store, Advance: clock.Advance,
			Reopen: func() retrysafe.Store { again, _ := openSQLite(t, path, o); return again },
			Hold: func(retrysafe.StoreKey) func() { // whatever the key: there is one lock
				release := holdFile(t, path)
				t.Cleanup(release)
				return release
			},
		}
	}, storetest.Features{Issuer: true, Limiter: true, Lister: true, Sweeper: true, Durable: true, Transactions: true, SingleWriter: true})
}

// request returns a claim of a key with its own owner.
func request(id string) retrysafe.AcquireRequest {
	return retrysafe.AcquireRequest{
		Key:   retrysafe.StoreKey{Namespace: "integration", Layer: "fn", Key: retrysafe.Key{Operation: "charge", ID: id}},
		Owner: owner(id), Lease: time.Minute, Retention: time.Hour, OnDoubt: retrysafe.Refuse,
	}
}

func owner(name string) (o retrysafe.Owner) {
	copy(o[:], fmt.Sprintf("%16s", name))
	return o
}
