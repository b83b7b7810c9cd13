package brokers_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// stores are the servers of records and effects for all tests of a group. Each test has its own
// database on them.
type stores struct {
	postgres *servertest.Postgres
	redis    *servertest.Redis
	used     atomic.Int64
}

func startStores(t *testing.T) *stores {
	t.Helper()
	return &stores{
		postgres: servertest.StartPostgres(t, "-c", "max_connections=500"),
		redis:    servertest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always"),
	}
}

// newDatabases returns the URLs of a test's databases.
func (s *stores) newDatabases(t *testing.T) (postgres, redis string) {
	t.Helper()
	n := s.used.Add(1) // Redis has sixteen
	db, err := sql.Open("pgx", s.postgres.URL)
	assert.NoError(t, err, "open")
	defer db.Close()
	_, err = db.ExecContext(t.Context(), fmt.Sprintf("CREATE DATABASE own%d", n))
	assert.NoError(t, err, "create a database")
	return strings.Replace(s.postgres.URL, "/postgres?", fmt.Sprintf("/own%d?", n), 1), fmt.Sprintf("redis://%s/%d", s.redis.Addr, n)
}

// redisOn returns a store on a Redis.
func redisOn(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	address, err := redisclient.ParseURL(url)
	assert.NoError(t, err, "address")
	client, err := rueidisclient.Open(address)
	assert.NoError(t, err, "connect")
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(t.Context(), client, &redisstore.Options{Logger: quiet})
	assert.NoError(t, err, "store")
	return s
}
