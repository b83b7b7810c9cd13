package locks_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
	"github.com/retrysafe/retrysafe/lock/sqllock"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// sqlLockDatabases open the databases for tests of locks, each time on the same data.
var sqlLockDatabases = servers.WithPostgres(servers.WithPostgres(map[string]sqlLockDatabase{
	"SQLite": {sqllock.SQLite, func(t *testing.T) func(testing.TB) *sql.DB {
		t.Helper()
		return poolOpener("sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)))
	}},
	"MariaDB": {sqllock.MySQL, func(t *testing.T) func(testing.TB) *sql.DB {
		t.Helper()
		return poolOpener("mysql", servers.MySQLDatabase(t))
	}},
	"MariaDB, found rows": {sqllock.MySQL, func(t *testing.T) func(testing.TB) *sql.DB {
		t.Helper()
		return poolOpener("mysql", servers.MySQLDatabase(t)+"&clientFoundRows=true&time_zone=%27-05%3A00%27")
	}},
}, lockTableOn("")), lockTableOn("&default_transaction_isolation=serializable"), "serializable")

// sqlLockDatabase opens a database.
type sqlLockDatabase struct {
	dialect sqllock.Dialect
	make    func(t *testing.T) (open func(tb testing.TB) *sql.DB)
}

func lockTableOn(parameters string) func(v *servers.PostgresVersion) sqlLockDatabase {
	return func(v *servers.PostgresVersion) sqlLockDatabase {
		return sqlLockDatabase{sqllock.PostgreSQL, func(t *testing.T) func(testing.TB) *sql.DB {
			t.Helper()
			return poolOpener("pgx", v.Database(t)+parameters)
		}}
	}
}

func poolOpener(driver, dsn string) func(testing.TB) *sql.DB {
	return func(tb testing.TB) *sql.DB {
		tb.Helper()
		return sqltest.Open(tb, driver, dsn)
	}
}

func tableOn(tb testing.TB, db *sql.DB, d sqllock.Dialect) *sqllock.Table {
	tb.Helper()
	locks, err := sqllock.NewTable(db, d, nil)
	assert.NoError(tb, err, "NewTable")
	assert.NoError(tb, locks.Migrate(tb.Context()), "Migrate")
	return locks
}

// TestTableLock runs the contract of locks.
func TestTableLock(t *testing.T) {
	t.Parallel()
	for name, one := range sqlLockDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := one.make(t)
			locktest.Run(t, locktest.Config{Lists: true, Open: func(tb testing.TB) lock.Backend {
				tb.Helper()
				return tableOn(tb, open(tb), one.dialect)
			}})
		})
	}
}

// TestTableLockFences sets the database's clock before the fence, and lets names be removed.
func TestTableLockFences(t *testing.T) {
	t.Parallel()
	for name, one := range sqlLockDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := one.make(t)(t)
			locks := tableOn(t, db, one.dialect)
			r := lockRequest("x")
			first, err := locks.TryLock(t.Context(), r)
			assert.NoError(t, err, "TryLock")
			// As after a clock that went back.
			sqltest.Exec(t, db, "UPDATE retrysafe_locks SET fence = fence + 3600000000")
			again, err := locks.TryLock(t.Context(), r)
			assert.NoError(t, err, "TryLock")
			assert.Equal(t, again.Fence, first.Fence+3600000000, "of the same holder")
			assert.NoError(t, locks.Unlock(t.Context(), r), "Unlock")
			assert.ErrorIs(t, locks.Extend(t.Context(), r), lock.ErrLost, "Extend")
			next, err := locks.TryLock(t.Context(), r)
			assert.NoError(t, err, "TryLock")
			assert.Equal(t, next.Fence, again.Fence+1, "of the next")
			assert.NoError(t, locks.Unlock(t.Context(), r), "Unlock")
			n, err := locks.Sweep(t.Context())
			assert.NoError(t, err, "Sweep")
			assert.Equal(t, n, 0, "names forgotten too early")
			_, err = locks.TryLock(t.Context(), lockRequest("y"))
			assert.NoError(t, err, "TryLock")
			sqltest.Exec(t, db, "UPDATE retrysafe_locks SET until = 1 WHERE fence = "+strconv.FormatUint(uint64(next.Fence), 10))
			n, err = locks.Sweep(t.Context())
			assert.NoError(t, err, "Sweep")
			assert.Equal(t, n, 1, "names forgotten")
			assert.Equal(t, sqltest.Count(t, db, "retrysafe_locks"), 1, "names left")
		})
	}
}

func lockRequest(name string) lock.Request {
	r := lock.Request{Name: name, Lease: time.Minute}
	_, _ = rand.Read(r.Owner[:])
	return r
}

// TestTableLockLostReplies loses the replies of a lock and of a release: a repeated call learns the
// outcome.
func TestTableLockLostReplies(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		dialect sqllock.Dialect
		proxied func(t *testing.T) (*servers.SQLProxy, *sql.DB)
	}{
		"PostgreSQL": {sqllock.PostgreSQL, func(t *testing.T) (*servers.SQLProxy, *sql.DB) {
			t.Helper()
			s := servers.StartPostgres(t)
			p := servers.StartSQLProxy(t, s.Port, servers.PostgresMessage)
			return p, sqltest.Open(t, "pgx", s.At(p.Addr, "default_query_exec_mode=simple_protocol"))
		}},
		"MariaDB": {sqllock.MySQL, func(t *testing.T) (*servers.SQLProxy, *sql.DB) {
			t.Helper()
			s := servers.StartMySQL(t)
			p := servers.StartSQLProxy(t, s.Port, servers.MySQLMessage)
			return p, sqltest.Open(t, "mysql", s.At(p.Addr))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, db := one.proxied(t)
			locks := tableOn(t, db, one.dialect)
			for _, fate := range []servers.Cut{servers.LoseRequest, servers.LoseReply} {
				r := lockRequest("x")
				p.Set("INSERT INTO", fate)
				_, err := locks.TryLock(t.Context(), r)
				assert.True(t, p.Asked(), "there was a cut")
				// A driver may notice that nothing was sent, and send it again.
				assert.True(t, !errors.Is(err, lock.ErrHeld), "a cut says that another one has it")
				_, err = locks.TryLock(t.Context(), r)
				assert.NoError(t, err, "TryLock again")
				_, err = locks.TryLock(t.Context(), lockRequest("x"))
				assert.ErrorIs(t, err, lock.ErrHeld, "TryLock of another")
				p.Set("UPDATE", fate)
				if locks.Unlock(t.Context(), r) != nil {
					if err := locks.Unlock(t.Context(), r); err != nil {
						assert.ErrorIs(t, err, lock.ErrLost, "Unlock again")
					}
				}
				assert.True(t, p.Asked(), "there was a cut")
				other := lockRequest("x")
				_, err = locks.TryLock(t.Context(), other)
				assert.NoError(t, err, "TryLock of another")
				assert.NoError(t, locks.Unlock(t.Context(), other), "Unlock")
			}
		})
	}
}

func TestTableLockRefusals(t *testing.T) {
	t.Parallel()
	locks, err := sqllock.NewTable(sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t))), sqllock.SQLite, nil)
	assert.NoError(t, err, "NewTable")
	_, err = locks.TryLock(t.Context(), lockRequest("x"))
	assert.Contains(t, err.Error(), "call Migrate", "without a table")
	off := sqltest.Open(t, "mysql", servers.MySQLDatabase(t)+"&autocommit=0")
	locks, err = sqllock.NewTable(off, sqllock.MySQL, nil)
	assert.NoError(t, err, "NewTable")
	_, err = locks.TryLock(t.Context(), lockRequest("x"))
	assert.Contains(t, err.Error(), "autocommit is off", "without commits")
}
