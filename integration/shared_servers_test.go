package integration_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// sharedServer runs until the tests have ended. Those that want nothing but a database have one of their own on it, since a server costs more
// than most of them; those that stop a server, set it up, or count what it does have one for themselves.
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
	zooKeeperForAll = sharedServer[*zooKeeperServer]{start: func(tb testing.TB) *zooKeeperServer {
		tb.Helper()
		return startZooKeeper(tb)
	}}
)

// get starts it for the first test that asks.
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

// postgresDatabase is the URL of an empty database.
func postgresDatabase(t *testing.T) string {
	t.Helper()
	server, name := postgresForAll.get(t), fmt.Sprint("test", postgresForAll.databases.Add(1))
	execSQL(t, openDB(t, "pgx", server.url()), "CREATE DATABASE "+name)
	return server.database(name)
}

// mysqlDatabase is the DSN of an empty database.
func mysqlDatabase(t *testing.T) string {
	t.Helper()
	server, name := mysqlForAll.get(t), fmt.Sprint("test", mysqlForAll.databases.Add(1))
	execSQL(t, openDB(t, "mysql", server.dsn()), "CREATE DATABASE "+name)
	return server.database(name)
}

// untilTheEnd stands for all tests: what it cleans up is cleaned up after the last.
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

func (untilTheEnd) Context() context.Context { return context.Background() }

// cleanUp is what TestMain calls.
func cleanUp() {
	for i := len(atTheEnd.all) - 1; i >= 0; i-- {
		atTheEnd.all[i]()
	}
}
