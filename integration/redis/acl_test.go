package redis_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisstore"
)

var errRefusedByBank = errors.New("the bank says no")

// TestRedisWithoutChannels: a user who may not publish, the default for users with rights on keys
// in Redis 7, can complete work, and gets a warning when the store is opened.
func TestRedisWithoutChannels(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	assert.Equal(t, servers.RedisDo(server.Addr, "ACL", "SETUSER", "shop", "on", ">a-password", "~rs:*", "+@all"), "OK", "the user")
	for name, connect := range servers.RedisClients {
		for _, light := range []bool{false, true} {
			var log teststores.Log
			s, err := redisstore.New(t.Context(), connect(t, "redis://shop:a-password@"+server.Addr), &redisstore.Options{
				Light: light, Logger: log.Logger(),
			})
			assert.NoError(t, err, "%s: the store", name)
			assert.Equal(t, strings.Count(log.String(), "the user may not publish"), 1, "%s: warnings: %s", name, log.String())
			e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Policy: retrysafe.Policy{Wait: time.Minute}, Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
			for id, end := range map[string]error{"completed": nil, "failed": retrysafe.Permanent("declined", errRefusedByBank), "released": retrysafe.NothingDone(errRefusedByBank), "in doubt": errRefusedByBank} {
				key := retrysafe.Key{Tenant: name, Operation: "charge", ID: id}
				if light {
					key.Tenant += " light"
				}
				res, err := retrysafe.Do(t.Context(), e, key, func(context.Context) (string, error) { return "receipt", end })
				if end != nil {
					assert.ErrorIs(t, err, errRefusedByBank, "%s: %s", name, id)
				} else {
					assert.NoError(t, err, "%s: %s", name, id)
				}
				rec, err := e.Lookup(t.Context(), key)
				assert.NoError(t, err, "%s: look up", name)
				want := map[string]retrysafe.State{
					"completed": retrysafe.StateCompleted, "failed": retrysafe.StateFailed, "released": retrysafe.StateReleased, "in doubt": retrysafe.StateInProgress,
				}[id]
				assert.Equal(t, rec.State, want, "%s: the record of what is %s", name, id)
				assert.True(t, res.Stored == (end == nil || id == "failed"), "%s: stored: %v", name, res.Stored)
			}
		}
	}
}
