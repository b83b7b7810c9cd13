package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// heard is what a store has logged.
type heard struct{ teststores.Log }

func (h *heard) count(words string) int { return strings.Count(h.String(), words) }

func (h *heard) newStore(t *testing.T, c redisclient.Client) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(t.Context(), c, &redisstore.Options{Logger: h.Logger()})
	assert.NoError(t, err, "store")
	return s
}

const (
	clocksDiffer = "clocks of the servers differ"
	clockUnasked = "could not be asked for their clocks"
)

// TestRedisClocksApart: a store reports at its start that the clocks of its servers differ, on a
// primary or a replica, which is ahead or lags.
func TestRedisClocksApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url   func(t *testing.T) string
		apart bool
	}{
		"one server": {func(t *testing.T) string {
			t.Helper()
			return "redis://" + servers.StartRedisShifted(t, time.Hour).Addr
		}, false},
		"pair": {func(t *testing.T) string { t.Helper(); return servers.StartPair(t).Steady().URL() }, false},
		"pair, replica ahead": {func(t *testing.T) string {
			t.Helper()
			return servers.StartPairShifted(t, 5*time.Second).Steady().URL()
		}, true},
		"pair, replica behind": {func(t *testing.T) string { t.Helper(); return servers.StartPairShifted(t, -time.Hour).Steady().URL() }, true},
		"pair, by the primary's name": {func(t *testing.T) string {
			t.Helper()
			return "redis://" + servers.StartPairShifted(t, time.Hour).Steady().Primary.Addr
		}, true},
		"cluster, one primary behind": {clusterShifted(1, -5*time.Second), true},
		"cluster, one replica ahead":  {clusterShifted(5, 5*time.Second), true},
		"cluster, within its leases":  {clusterShifted(5, 2*time.Second), false},
		"replica with another address": {func(t *testing.T) string {
			t.Helper()
			return servers.StartPair(t, "--replica-announce-port", "1").Steady().URL()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.url(t)
			for adapter, connect := range servers.RedisClients {
				unasked := strings.Count(name, "another address")
				waits.Eventually(t, "the servers answer in time", func() bool {
					// A busy machine may take longer than the second that New gives them.
					h := new(heard)
					h.newStore(t, connect(t, url))
					assert.True(t, h.count(clocksDiffer) == 0 || c.apart, "warnings through %s: %s", adapter, h.String())
					assert.True(t, h.count(clockUnasked) >= unasked, "replicas that were not asked through %s: %s", adapter, h.String())
					return (h.count(clocksDiffer) == 1) == c.apart && h.count(clockUnasked) == unasked
				})
			}
		})
	}
}

func clusterShifted(node int, shift time.Duration) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		return servers.StartClusterShifted(t, map[int]time.Duration{node: shift}).Steady().URL()
	}
}

// TestRedisClocksApartForALease: a difference that is harmless for usual leases is reported, once,
// when a short lease comes.
func TestRedisClocksApartForALease(t *testing.T) {
	t.Parallel()
	pair := servers.StartPairShifted(t, 2*time.Second).Steady()
	for adapter, connect := range servers.RedisClients {
		var h *heard
		var s *redisstore.Store
		waits.Eventually(t, "the replica answers in time", func() bool { // see above
			h = new(heard)
			s = h.newStore(t, connect(t, pair.URL()))
			return h.count(clockUnasked) == 0
		})
		assert.Equal(t, h.count(clocksDiffer), 0, "warnings at the start: %s", h.String())
		for i, lease := range []time.Duration{time.Minute, 25 * time.Second, 5 * time.Second, 5 * time.Second} {
			_, err := s.Acquire(t.Context(), storeapi.AcquireRequest{
				Key: teststores.OrderStoreKey(adapter), Owner: storeapi.Owner{byte(i)}, Lease: lease, Retention: time.Hour, OnDoubt: retrysafe.Refuse,
			})
			assert.NoError(t, err, "claim")
			assert.Equal(t, h.count(clocksDiffer), min(max(i-1, 0), 1), "warnings after a lease of %v: %s", lease, h.String())
		}
	}
}

// TestRedisClockOfAServerThatHangs: a replica that does not answer delays a store for a while, but
// not until it continues.
func TestRedisClockOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	primary, replica := servers.StartCouple(t)
	for adapter, connect := range servers.RedisClients {
		client := connect(t, "redis://"+primary.Addr)
		h, resume, begun := new(heard), replica.Stall(), time.Now()
		h.newStore(t, client)
		took := time.Since(begun)
		resume()
		assert.Equal(t, h.count(clockUnasked), 1, "through %s: %s", adapter, h.String())
		t.Logf("%s: %v", adapter, took)
	}
}
