package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

var redisFeatures = storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Notifier: true, Durable: true}

// batching are the features of a store whose claims need no replica.
var batching = func() storetest.Features { f := redisFeatures; f.Batcher = true; return f }()

// redisKinds are the users and servers that the contract runs with.
var redisKinds = map[string]struct {
	hosted        bool
	least         bool   // the user has the rights of docs/stores.md, and no others
	client, other string // on the first kind of server, and on others; empty: each
}{
	"every right":    {other: "go-redis"},
	"without CONFIG": {hosted: true, client: "go-redis", other: "go-redis"},
	"least rights":   {hosted: true, least: true, client: "rueidis", other: "rueidis"},
}

// TestRedisStore runs the contract with a separate server for each clause that stalls it.
func TestRedisStore(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, testRedisStore)
}

func testRedisStore(t *testing.T, k *servers.RedisKind) {
	t.Helper()
	for name, kind := range redisKinds {
		for adapter, connect := range servers.RedisClients {
			if only := k.Client(kind.client, kind.other); only != "" && only != adapter && !waits.LongSoak() {
				continue
			}
			t.Run(name+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				storetest.Run(t, func(t *testing.T) storetest.Backend {
					t.Helper()
					shared, start := &k.Shared, k.Start
					if kind.hosted {
						shared, start = &k.Hosted, k.StartHosted
					}
					server, stall := redisToStall(t, shared, start)
					o := &redisstore.Options{Prefix: servers.RedisPrefix()}
					url := "redis://" + server.Addr
					if kind.least {
						url = server.AsUser(t, strings.TrimSuffix(o.Prefix, ":"), o.Prefix, servers.LeastRights(t)...)
					}
					client := &counted{Client: connect(t, url)}
					return storetest.Backend{
						Store:  teststores.Redis(t, client, o),
						Reopen: func() storeapi.Store { return teststores.Redis(t, connect(t, url), o) },
						Stall:  stall,
						Trips:  func() int { return int(client.trips.Load()) },
					}
				}, batching)
			})
		}
	}
}

// redisToStall returns the server that all clauses share, except for those that stall it.
func redisToStall(t *testing.T, shared *servers.Shared[*servers.Redis], start func(testing.TB, ...string) *servers.Redis) (server *servers.Redis, stall func() (resume func())) {
	t.Helper()
	if strings.Contains(t.Name(), "/S11") || strings.Contains(t.Name(), "/S15") {
		server = start(t)
		return server, server.Stall
	}
	return shared.Get(t), nil
}

// TestRedisNearStore runs the contract with copies of finished work in between.
func TestRedisNearStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		server, stall := redisToStall(t, &servers.RedisKinds[0].Shared, servers.StartRedis)
		o := &redisstore.Options{Prefix: servers.RedisPrefix()}
		open := func() storeapi.Store {
			return nearstore.New(teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+server.Addr), o), nil)
		}
		return storetest.Backend{Store: open(), Reopen: open, Stall: stall}
	}, batching)
}

// TestRedisSentinelStore and TestRedisClusterStore run the contract on servers that all clauses
// share, each with its own prefix; replicas confirm claims. The short form uses one client for
// each.
func TestRedisSentinelStore(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		runShared(t, k.Client("go-redis", "rueidis"), k.StartPair(t).Steady().URL(), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: time.Minute})
	})
}

func TestRedisClusterStore(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		runShared(t, k.Client("rueidis", "go-redis"), k.Cluster.Get(t).URL(), &redisstore.Options{Replicas: 1, ReplicaTime: time.Minute})
	})
}

func runShared(t *testing.T, adapter, url string, o *redisstore.Options) {
	t.Helper()
	for name, connect := range servers.RedisClients {
		if name != adapter && !waits.LongSoak() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, url)
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				t.Helper()
				own := *o
				own.Prefix = servers.RedisPrefix()
				return storetest.Backend{
					Store:  teststores.Redis(t, client, &own),
					Reopen: func() storeapi.Store { return teststores.Redis(t, client, &own) },
				}
			}, redisFeatures)
		})
	}
}
