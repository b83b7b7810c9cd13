package servers

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
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
	SharedMySQL = Shared[*MySQL]{Start: func(tb testing.TB) *MySQL {
		tb.Helper()
		return StartMySQL(tb, "--max-connections=500")
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

// PostgresDatabase returns the URL of an empty database of the first version.
func PostgresDatabase(t *testing.T) string {
	t.Helper()
	return PostgresVersions[0].Database(t)
}

// Database returns the URL of an empty database.
func (v *PostgresVersion) Database(t *testing.T) string {
	t.Helper()
	server, name := v.Shared.Get(t), fmt.Sprint("test", v.Shared.databases.Add(1))
	sqltest.Exec(t, sqltest.Open(t, "pgx", server.URL()), "CREATE DATABASE "+name)
	return server.otherDatabase(name)
}

// MySQLDatabase returns the DSN of an empty database.
func MySQLDatabase(t *testing.T) string {
	t.Helper()
	server, name := SharedMySQL.Get(t), fmt.Sprint("test", SharedMySQL.databases.Add(1))
	sqltest.Exec(t, sqltest.Open(t, "mysql", server.DSN()), "CREATE DATABASE "+name)
	return server.otherDatabase(name)
}

var prefixes atomic.Int64

// RedisPrefix returns a key prefix for a test that shares a server.
func RedisPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

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
