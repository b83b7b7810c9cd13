package sql_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisFullBatch: finished keys of a batch are replayed while the memory of Redis is full.
func TestRedisFullBatch(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, "--maxmemory-policy", "noeviction")
	s := teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+server.Addr), nil)
	e := teststores.ShortEngine(t, s, retrysafe.Policy{})
	var keys []retrysafe.Key
	for i := range 3 {
		keys = append(keys, teststores.OrderKey(fmt.Sprint(i)))
		_, err := retrysafe.Do(t.Context(), e, keys[i], func(context.Context) (int64, error) { return 7, nil })
		assert.NoError(t, err, "first")
	}
	servers.RedisDo(server.Addr, "DEBUG", "POPULATE", 3000, "other", 2000)
	assert.Equal(t, servers.RedisDo(server.Addr, "CONFIG", "SET", "maxmemory", "4mb"), "OK", "less than the other keys take")
	_, rec, err := e.Begin(t.Context(), keys[0])
	assert.True(t, err == nil && rec != nil, "alone: %v", err)
	for _, b := range e.BeginBatch(t.Context(), keys) {
		assert.True(t, b.Err == nil && b.Record != nil, "in a batch: %v", b.Err)
	}
}
