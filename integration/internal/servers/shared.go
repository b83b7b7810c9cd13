package servers

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// Shared runs, or exists, until all tests have ended. Tests that only need a database get a
// separate one on it, since starting a server takes longer than most of them. Tests that stop a
// server, configure it, or count what it does start their own.
type Shared[S any] struct {
	Start     func(tb testing.TB) S
	once      sync.Once
	started   bool
	server    S
	databases atomic.Int64
}

// The servers that tests share.
var (
	SharedPostgres = Shared[*Postgres]{Start: func(tb testing.TB) *Postgres {
		tb.Helper()
		return StartPostgres(tb, "-c", "max_connections=500", "-c", "deadlock_timeout=100ms")
	}}
	SharedMySQL = Shared[*MySQL]{Start: func(tb testing.TB) *MySQL {
		tb.Helper()
		return StartMySQL(tb, "--max-connections=500")
	}}
	SharedRedis = Shared[*Redis]{Start: func(tb testing.TB) *Redis {
		tb.Helper()
		return StartRedis(tb)
	}}
	SharedHosted = Shared[*Redis]{Start: func(tb testing.TB) *Redis {
		tb.Helper()
		return StartHostedRedis(tb)
	}}
	SharedCluster = Shared[*RedisCluster]{Start: func(tb testing.TB) *RedisCluster {
		tb.Helper()
		return StartCluster(tb).Steady()
	}}
	SharedZooKeeper = Shared[*ZooKeeperServer]{Start: func(tb testing.TB) *ZooKeeperServer {
		tb.Helper()
		return StartZooKeeper(tb)
	}}
)

// Get starts the server for the first test that asks.
func (s *Shared[S]) Get(t *testing.T) S {
	t.Helper()
	s.once.Do(func() {
		s.server = s.Start(untilTheEnd{t})
		s.started = true
	})
	if !s.started {
		t.Fatal("the server that tests share did not start; another test says why")
	}
	return s.server
}

// PostgresDatabase returns the URL of an empty database.
func PostgresDatabase(t *testing.T) string {
	t.Helper()
	server, name := SharedPostgres.Get(t), fmt.Sprint("test", SharedPostgres.databases.Add(1))
	sqltest.Exec(t, sqltest.Open(t, "pgx", server.URL()), "CREATE DATABASE "+name)
	return server.database(name)
}

// MySQLDatabase returns the DSN of an empty database.
func MySQLDatabase(t *testing.T) string {
	t.Helper()
	server, name := SharedMySQL.Get(t), fmt.Sprint("test", SharedMySQL.databases.Add(1))
	sqltest.Exec(t, sqltest.Open(t, "mysql", server.DSN()), "CREATE DATABASE "+name)
	return server.database(name)
}

// RedisPrefix returns a key prefix for a test that shares SharedRedis.
func RedisPrefix() string { return fmt.Sprintf("test%d:", SharedRedis.databases.Add(1)) }

// untilTheEnd stands for all tests: its cleanup runs after the last one.
type untilTheEnd struct{ testing.TB }

var atTheEnd struct {
	mu  sync.Mutex
	all []func()
}

func (untilTheEnd) Cleanup(f func()) {
	atTheEnd.mu.Lock()
	defer atTheEnd.mu.Unlock()
	atTheEnd.all = append(atTheEnd.all, f)
}

func (u untilTheEnd) TempDir() string {
	dir, err := os.MkdirTemp("", "retrysafe-integration")
	assert.NoError(u.TB, err, "a folder")
	u.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (untilTheEnd) Context() context.Context { return context.Background() }

// cleanUp runs these cleanups; Main calls it.
func cleanUp() {
	for i := len(atTheEnd.all) - 1; i >= 0; i-- {
		atTheEnd.all[i]()
	}
}
