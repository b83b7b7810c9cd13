package redis_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/internal/answertest"
	"github.com/retrysafe/retrysafe/redisstore"
)

// TestRedisGoValues: a duplicate gets the answer of the first caller, whichever Go value it is.
func TestRedisGoValues(t *testing.T) {
	t.Parallel()
	for name, client := range servers.RedisClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, "redis://"+servers.SharedRedis.Get(t).Addr)
			answertest.Run(t, teststores.Redis(t, c, &redisstore.Options{Prefix: servers.RedisPrefix()}))
		})
	}
}
