package redis_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/answertest"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisGoValues: a duplicate gets the answer of the first caller, whichever Go value it is.
func TestRedisGoValues(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		for name, client := range servers.RedisClients {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := client(t, "redis://"+k.Shared.Get(t).Addr)
				answertest.Run(t, teststores.Redis(t, c, &redisstore.Options{Prefix: servers.RedisPrefix()}))
			})
		}
	})
}
