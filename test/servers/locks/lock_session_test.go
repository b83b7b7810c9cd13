package locks_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
	"github.com/retrysafe/retrysafe/lock/sqllock"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// cable is a connection to a server that a test can cut, so that both sides notice, or let go dead,
// so that neither does.
type cable struct {
	addr string
	work sync.WaitGroup

	mu    sync.Mutex
	dead  bool
	ended bool
	lines []net.Conn
}

func layCable(tb testing.TB, to string) *cable {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(tb, err, "listen")
	c := &cable{addr: l.Addr().String()}
	c.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			c.mu.Lock()
			c.lines = append(c.lines, client, server)
			if c.ended {
				_, _ = client.Close(), server.Close()
			}
			c.mu.Unlock()
			c.work.Go(func() { c.carryBytes(client, server) })
			c.work.Go(func() { c.carryBytes(server, client) })
		}
	})
	tb.Cleanup(func() { _ = l.Close(); c.cutConnections(); c.work.Wait() })
	return c
}

func (c *cable) carryBytes(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		dead := c.dead
		c.mu.Unlock()
		if dead && !errors.Is(err, net.ErrClosed) {
			if err == nil {
				continue
			}
			return // the other side does not notice
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

func (c *cable) cutConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, l := range c.lines {
		_ = l.Close()
	}
}

func (c *cable) goDead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

// wired is a backend whose connections a test can cut.
type wired struct {
	*sqllock.Session
	cable *cable
}

// sessionLocks are the servers for tests of session locks: their address, and how to connect
// through another one.
var sessionLocks = servers.WithPostgres(map[string]sessionLock{
	"MariaDB": {sqllock.MySQL, "mysql", func(t *testing.T) (string, string) {
		t.Helper()
		return net.JoinHostPort("127.0.0.1", servers.SharedMySQL.Get(t).Port), servers.MySQLDatabase(t)
	}},
}, func(v *servers.PostgresVersion) sessionLock {
	return sessionLock{sqllock.PostgreSQL, "pgx", func(t *testing.T) (string, string) {
		t.Helper()
		return net.JoinHostPort("127.0.0.1", v.Shared.Get(t).Port), v.Database(t)
	}}
})

type sessionLock struct {
	dialect sqllock.Dialect
	driver  string
	address func(t *testing.T) (addr, dsn string)
}

// openWired opens a backend on a cable of its own.
func openWired(tb testing.TB, d sqllock.Dialect, driver, addr, dsn string) *wired {
	tb.Helper()
	c := layCable(tb, addr)
	db, err := sql.Open(driver, strings.Replace(dsn, addr, c.addr, 1))
	assert.NoError(tb, err, "open the database")
	tb.Cleanup(func() { c.cutConnections(); _ = db.Close() })
	s, err := sqllock.NewSession(db, d, nil)
	assert.NoError(tb, err, "NewSession")
	assert.NoError(tb, s.Migrate(tb.Context()), "Migrate")
	return &wired{s, c}
}

// TestSessionLock runs the contract of locks.
func TestSessionLock(t *testing.T) {
	t.Parallel()
	for name, one := range sessionLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, dsn := one.address(t)
			locktest.Run(t, locktest.Config{
				Open: func(tb testing.TB) lock.Backend {
					tb.Helper()
					return openWired(tb, one.dialect, one.driver, addr, dsn)
				},
				// Each lock takes one or two connections, and PostgreSQL starts a process for each.
				Rounds: 6,
				Crash:  func(b lock.Backend) { b.(*wired).cable.cutConnections() }, //nolint:errcheck,forcetypeassert // Open makes them
			})
		})
	}
}

// TestSessionLockOfADeadLine lets a holder's connection go dead, so that the server hears nothing
// from it. The server ends the session soon, and the holder is notified before another one gets the
// lock.
func TestSessionLockOfADeadLine(t *testing.T) {
	t.Parallel()
	for name, one := range sessionLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, dsn := one.address(t)
			a, b := openWired(t, one.dialect, one.driver, addr, dsn), openWired(t, one.dialect, one.driver, addr, dsn)
			ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
			defer cancel()
			var held *lock.Lock
			waits.Eventually(t, "an answer comes within the lease", func() bool {
				var err error
				held, err = lock.New(a, &lock.Options{Lease: time.Second}).Lock(ctx, "x")
				return err == nil
			})
			a.cable.goDead()
			next, err := lock.New(b, nil).Lock(ctx, "x")
			assert.NoError(t, err, "Lock of another")
			assert.ErrorIs(t, held.Err(), lock.ErrLost, "the holder was told before")
			assert.True(t, next.Fence() > held.Fence(), "the fence grows")
			assert.NoError(t, next.Release(ctx), "Release")
		})
	}
}

// TestSessionLockCut cuts a holder's connection, and the server ends the session. The holder's next
// call reports it.
func TestSessionLockCut(t *testing.T) {
	t.Parallel()
	for name, one := range sessionLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, dsn := one.address(t)
			a := openWired(t, one.dialect, one.driver, addr, dsn)
			r := lockRequest("x")
			g, err := a.TryLock(t.Context(), r)
			assert.NoError(t, err, "TryLock")
			assert.NoError(t, a.Extend(t.Context(), r), "Extend")
			a.cable.cutConnections()
			assert.ErrorIs(t, a.Extend(t.Context(), r), lock.ErrLost, "Extend")
			<-g.Done
			assert.ErrorIs(t, a.Unlock(t.Context(), r), lock.ErrLost, "Unlock")
		})
	}
}

func TestSessionLockRefusals(t *testing.T) {
	t.Parallel()
	_, err := sqllock.NewSession(sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t))), sqllock.SQLite, nil)
	assert.Contains(t, err.Error(), "use NewTable", "on SQLite")
	db := sqltest.Open(t, "pgx", servers.PostgresDatabase(t))
	db.SetMaxOpenConns(1)
	s, err := sqllock.NewSession(db, sqllock.PostgreSQL, nil)
	assert.NoError(t, err, "NewSession")
	_, err = s.TryLock(t.Context(), lockRequest("x"))
	assert.Contains(t, err.Error(), "allow more", "with a pool of one")
}

// TestSessionLockThroughPooler: a pooler in transaction mode is refused, and one in session mode
// works.
func TestSessionLockThroughPooler(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	for _, mode := range []string{"transaction", "statement", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			addr := servers.StartBouncer(t, server, mode)
			db := sqltest.Open(t, "pgx", server.At(addr, "default_query_exec_mode=simple_protocol"))
			s, err := sqllock.NewSession(db, sqllock.PostgreSQL, &sqllock.Options{Table: "through_" + mode})
			assert.NoError(t, err, "NewSession")
			direct, err := sqllock.NewSession(sqltest.Open(t, "pgx", server.URL()), sqllock.PostgreSQL, &sqllock.Options{Table: "through_" + mode})
			assert.NoError(t, err, "NewSession")
			assert.NoError(t, direct.Migrate(t.Context()), "Migrate")
			r := lockRequest("x")
			_, err = s.TryLock(t.Context(), r)
			if mode != "session" {
				assert.True(t, err != nil, "refused")
				t.Log(err)
				if mode == "transaction" {
					assert.Contains(t, err.Error(), "pooler", "why")
				}
				return
			}
			assert.NoError(t, err, "TryLock")
			_, err = direct.TryLock(t.Context(), lockRequest("x"))
			assert.ErrorIs(t, err, lock.ErrHeld, "TryLock of another")
			assert.NoError(t, s.Unlock(t.Context(), r), "Unlock")
			_, err = direct.TryLock(t.Context(), lockRequest("x"))
			assert.NoError(t, err, "TryLock of another")
		})
	}
}
