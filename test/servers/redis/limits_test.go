package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisChargeDecidesLikeTheProtocol: over random charges, every answer of the script and every
// byte that it stores is what the Go function returns for the same counts, request and time.
func TestRedisChargeDecidesLikeTheProtocol(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		server := k.Start(t)
		raw := servers.RueidisTo(t, server.Addr)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		spy := &timed{Client: raw}
		s := teststores.Redis(t, spy, nil)
		for round := range 80 {
			tenant := fmt.Sprintf("tenant %d/ü", round)
			var u protocol.Usage
			for range 40 {
				req := storeapi.ChargeRequest{
					Namespace: "app", Tenant: tenant, Keys: rnd.Int64N(4) - 1, Bytes: max(0, rnd.Int64N(40)-20) - rnd.Int64N(3),
					For: []time.Duration{500, time.Millisecond, 3 * time.Millisecond, time.Minute, 25 * time.Hour, retrysafe.Forever}[rnd.IntN(6)],
					Limits: storeapi.Limits{
						Live: rnd.Int64N(20), Bytes: rnd.Int64N(60), PerSecond: []float64{0, 0, 1500, 0.01, 3}[rnd.IntN(5)], Burst: rnd.Int64N(5),
					},
				}
				if round%10 == 0 { // the largest numbers
					req.Limits = storeapi.Limits{PerSecond: 0.0001, Burst: 100_000}
					req.Keys = 100_000 - 200_000*rnd.Int64N(2)
					req.Bytes = 1<<40 - 1<<41*rnd.Int64N(2)
				}
				if rnd.IntN(8) == 0 {
					<-time.After(time.Duration(rnd.IntN(3000)) * time.Microsecond)
				}
				what := fmt.Sprintf("%+v after %+v", req, u)
				got, err := s.Charge(t.Context(), req)
				assert.NoError(t, err, "Charge")
				next, want, _ := protocol.Charge(u, spy.now, &req)
				assert.Equal(t, got, want, "answer to %s", what)
				u = next
				stored := redisGet(t, raw, "rs:"+string(protocol.UsageName("app", tenant)))
				if stored == "" {
					assert.True(t, u.Expires() <= time.Now().UnixMicro(), "nothing is stored after %s, and %+v counts", what, u)
					continue
				}
				packed, err := u.AppendBinary(nil)
				assert.NoError(t, err, "pack")
				assert.Equal(t, fmt.Sprintf("%x", stored), fmt.Sprintf("%x", packed), "bytes after %s", what)
			}
		}
	})
}

// TestRedisChargeOfManyRates: in Redis as in Go, a tenant has at most 256 rates at once, so that
// its counts stay small.
func TestRedisChargeOfManyRates(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		spy := &timed{Client: servers.RueidisTo(t, k.Start(t).Addr)}
		s := teststores.Redis(t, spy, nil)
		var u protocol.Usage
		for i := range 300 {
			req := storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour, Limits: storeapi.Limits{PerSecond: 1 / (1000 + float64(i))}}
			got, err := s.Charge(t.Context(), req)
			assert.NoError(t, err, "Charge")
			next, want, _ := protocol.Charge(u, spy.now, &req)
			assert.Equal(t, got, want, "answer to rate %d", i)
			assert.Equal(t, got.OK, i < 256, "rate %d is counted", i)
			u = next
		}
	})
}

func redisGet(t *testing.T, c redisclient.Nodes, name string) (value string) {
	t.Helper()
	err := c.EachPrimary(t.Context(), func(ctx context.Context, do func(context.Context, ...string) redisclient.Reply) error {
		value, _ = do(ctx, "GET", name).Value.(string)
		return nil
	})
	assert.NoError(t, err, "GET")
	return value
}

// TestRedisChargeIsOneTrip: one round trip and one key, which expires by itself.
func TestRedisChargeIsOneTrip(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		server := k.Start(t)
		client := &counted{Client: servers.RueidisTo(t, server.Addr)}
		s := teststores.Redis(t, client, nil)
		before := client.trips.Load()
		_, err := s.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Tenant: "ann", Keys: 1, For: time.Hour})
		assert.NoError(t, err, "Charge")
		assert.Equal(t, client.trips.Load()-before, int64(1), "round trips")
		assert.Equal(t, servers.RedisDo(server.Addr, "KEYS", "*"), "[rs:app/limit/ann//]", "keys on the server")
		page, err := s.List(t.Context(), storeapi.ListRequest{})
		assert.NoError(t, err, "List")
		assert.Equal(t, len(page.Records), 0, "counts are no records")
		left, err := strconv.Atoi(servers.RedisDo(server.Addr, "PTTL", "rs:app/limit/ann//"))
		assert.True(t, err == nil && left > 0, "the end of the counts, in ms: %d, %v", left, err)
	})
}

// TestRedisLimitsTrips: with limits a new key costs two more round trips, a look and a charge, and
// a duplicate one.
func TestRedisLimitsTrips(t *testing.T) {
	t.Parallel()
	client := &counted{Client: servers.RueidisTo(t, servers.StartRedis(t).Addr)}
	e := retrysafe.New(teststores.Redis(t, client, nil), &retrysafe.Options{
		Namespace: "app",
		Policy:    retrysafe.Policy{Limits: retrysafe.Limits{Live: 25, PerSecond: 100}}, Secret: []byte("a secret of tests"),
	})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	trips := func(id string) int64 {
		t.Helper()
		before := client.trips.Load()
		_, err := retrysafe.Run(t.Context(), e, teststores.OrderKey(id), teststores.Nothing)
		assert.NoError(t, err, "a call")
		return client.trips.Load() - before
	}
	trips("by which the engine learns the server's clock")
	assert.Equal(t, trips("a"), int64(4), "round trips of a new key: look, charge, claim, answer")
	assert.Equal(t, trips("a"), int64(2), "round trips of a repeat: look, claim")
}

// TestRedisLimitsAreShared: of many new keys of two tenants that come to four engines at once,
// exactly as many of each run as the limit allows.
func TestRedisLimitsAreShared(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		for name, url := range map[string]string{"single": "redis://" + k.Start(t).Addr, "cluster": k.Cluster.Get(t).URL()} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				policy := retrysafe.Policy{Retention: time.Hour, Limits: retrysafe.Limits{Live: 25}}
				var engines []*retrysafe.Engine
				shared := redisstore.Options{Prefix: servers.RedisPrefix()}
				for _, connect := range servers.RedisClients {
					for range 2 {
						e := retrysafe.New(teststores.Redis(t, connect(t, url), &shared), &retrysafe.Options{Namespace: "app", Policy: policy, Secret: []byte("a secret of tests")})
						t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
						engines = append(engines, e)
					}
				}
				var ran [2]atomic.Int64
				var failed atomic.Value
				var callers sync.WaitGroup
				for i := range 400 {
					callers.Go(func() {
						tenant := i % 2
						key := retrysafe.Key{Tenant: fmt.Sprint(tenant), Operation: "charge", ID: fmt.Sprint(i)}
						for range 2 { // the second is a duplicate, or is refused again
							replayed, err := retrysafe.Run(context.Background(), engines[i/2%len(engines)], key, func(context.Context) error { return nil })
							switch {
							case err == nil && !replayed:
								ran[tenant].Add(1)
							case err != nil && !errors.Is(err, retrysafe.ErrTooManyKeys):
								failed.Store(err)
							}
						}
					})
				}
				callers.Wait()
				if err, _ := failed.Load().(error); err != nil {
					t.Fatalf("a call failed: %v", err)
				}
				for tenant := range ran {
					n := ran[tenant].Load()
					assert.Equal(t, n, int64(25), "keys of a tenant that ran")
					_, err := retrysafe.Run(t.Context(), engines[0], retrysafe.Key{Tenant: fmt.Sprint(tenant), Operation: "charge", ID: "over"}, func(context.Context) error { return nil })
					assert.ErrorIs(t, err, retrysafe.ErrTooManyKeys, "a key over the limit")
				}
			})
		}
	})
}

// TestRedisLimitsWithoutTheServer: nothing runs while the counts are unreachable, and all works
// again when they are back.
func TestRedisLimitsWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			p := servers.StartRedisProxy(t, server.Addr)
			e := retrysafe.New(teststores.Redis(t, p.Through(t, adapter), nil), &retrysafe.Options{
				Namespace: "app",
				Policy:    retrysafe.Policy{Limits: retrysafe.Limits{Live: 10}}, Secret: []byte("a secret of tests"),
			})
			t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
			f := newShopFront(t, e)
			p.SetHook(func(name string, _ int) servers.Cut {
				if name == "charge" {
					return servers.LoseRequest
				}
				return 0
			})
			got := f.sendRequest(t, adapter, "1s")
			assert.Equal(t, fmt.Sprint(got.status, got.code, got.retryAfter), "503store-unavailabletrue", "without an answer to the charge")
			assert.Equal(t, p.Ran("acquire"), 0, "claims")
			assert.Equal(t, f.runs.Load(), int64(0), "runs")
			p.SetHook(nil)
			assert.Equal(t, f.postOrder(t, adapter).status, 201, "when it answers")
		})
	}
}
