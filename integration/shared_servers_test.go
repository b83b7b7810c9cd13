package integration_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// sharedServer runs, or exists, until all tests have ended. Tests that only need a database get a
// separate one on it, since starting a server takes longer than most of them. Tests that stop a
// server, configure it, or count what it does start their own.
type sharedServer[S any] struct {
	start     func(tb testing.TB) S
	once      sync.Once
	started   bool
	server    S
	databases atomic.Int64
}

var (
	postgresForAll = sharedServer[*postgresServer]{start: func(tb testing.TB) *postgresServer {
		tb.Helper()
		return startPostgres(tb, "-c", "max_connections=500", "-c", "deadlock_timeout=100ms")
	}}
	mysqlForAll = sharedServer[*mysqlServer]{start: func(tb testing.TB) *mysqlServer {
		tb.Helper()
		return startMySQL(tb, "--max-connections=500")
	}}
	redisForAll = sharedServer[*redisServer]{start: func(tb testing.TB) *redisServer {
		tb.Helper()
		return startRedis(tb)
	}}
	clusterForAll = sharedServer[*redisCluster]{start: func(tb testing.TB) *redisCluster {
		tb.Helper()
		return startCluster(tb).steady()
	}}
	zooKeeperForAll = sharedServer[*zooKeeperServer]{start: func(tb testing.TB) *zooKeeperServer {
		tb.Helper()
		return startZooKeeper(tb)
	}}
)

// get starts the server for the first test that asks.
func (s *sharedServer[S]) get(t *testing.T) S {
	t.Helper()
	s.once.Do(func() {
		s.server = s.start(untilTheEnd{t})
		s.started = true
	})
	if !s.started {
		t.Fatal("the server that tests share did not start; another test says why")
	}
	return s.server
}

// postgresDatabase returns the URL of an empty database.
func postgresDatabase(t *testing.T) string {
	t.Helper()
	server, name := postgresForAll.get(t), fmt.Sprint("test", postgresForAll.databases.Add(1))
	execSQL(t, openDB(t, "pgx", server.url()), "CREATE DATABASE "+name)
	return server.database(name)
}

// mysqlDatabase returns the DSN of an empty database.
func mysqlDatabase(t *testing.T) string {
	t.Helper()
	server, name := mysqlForAll.get(t), fmt.Sprint("test", mysqlForAll.databases.Add(1))
	execSQL(t, openDB(t, "mysql", server.dsn()), "CREATE DATABASE "+name)
	return server.database(name)
}

// redisPrefix returns a key prefix for a test that shares redisForAll.
func redisPrefix() string { return fmt.Sprintf("test%d:", redisForAll.databases.Add(1)) }

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

// cleanUp runs these cleanups; TestMain calls it.
func cleanUp() {
	for i := len(atTheEnd.all) - 1; i >= 0; i-- {
		atTheEnd.all[i]()
	}
}
