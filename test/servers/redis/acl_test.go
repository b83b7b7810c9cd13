package redis_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
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

// TestRedisHosted: a store opens on a server without CONFIG, as a user with the rights of
// docs/stores.md alone, and says what it could not check. A policy that evicts is refused all the
// same, since INFO tells it.
func TestRedisHosted(t *testing.T) {
	t.Parallel()
	server := servers.StartHostedRedis(t, "--maxmemory-policy", "noeviction")
	evicting := servers.StartHostedRedis(t, "--maxmemory-policy", "allkeys-lru")
	const untold = "the server tells neither its configuration"
	for name, connect := range servers.RedisClients {
		for url, warnings := range map[string]int{
			"redis://" + server.Addr:                                    0,
			server.AsUser(t, "least", "rs:", servers.LeastRights(t)...): 1,
		} {
			var log teststores.Log
			s, err := redisstore.New(t.Context(), connect(t, url), &redisstore.Options{Logger: log.Logger()})
			assert.NoError(t, err, "%s, %s", name, url)
			assert.Equal(t, strings.Count(log.String(), untold), warnings, "%s, %s: it says: %s", name, url, log.String())
			assert.True(t, !strings.Contains(log.String(), "may not publish"), "%s, %s: it says: %s", name, url, log.String())
			e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
			for range 2 {
				key := retrysafe.Key{Tenant: name, Operation: "charge", ID: url}
				key.ID = retrysafe.KeyPart(key.ID)
				_, err = retrysafe.Do(t.Context(), e, key, func(context.Context) (string, error) { return "receipt", nil })
				assert.NoError(t, err, "%s, %s: Do", name, url)
			}
			err = s.Keeps(t.Context())
			assert.True(t, err != nil, "%s, %s: nobody knows that the server keeps everything", name, url)
		}
		_, err := redisstore.New(t.Context(), connect(t, "redis://"+evicting.Addr), nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "allkeys-lru"), "%s: a server that evicts: %v", name, err)
	}
}

// TestRedisCommandsRefused: each administrative command may be refused to the user. What works
// without it works, and what does not is refused when the store is opened, with the command's name.
func TestRedisCommandsRefused(t *testing.T) {
	t.Parallel()
	server, _ := servers.StartCouple(t)
	for _, refused := range []struct {
		command string
		o       redisstore.Options
		want    string // in the error of New; empty: none
	}{
		{"config", redisstore.Options{Replicas: redisstore.All}, ""},
		{"info", redisstore.Options{}, ""},
		{"info", redisstore.Options{Replicas: redisstore.All}, "does not tell (INFO); give their number"},
		{"info", redisstore.Options{Replicas: 1}, ""},
		{"role", redisstore.Options{Replicas: redisstore.All}, ""},
		{"script", redisstore.Options{}, ""},
		{"cluster", redisstore.Options{}, ""},
		{"client", redisstore.Options{}, ""},
		{"wait", redisstore.Options{}, ""},
		{"wait", redisstore.Options{Replicas: 1}, "Replicas needs the command WAIT"},
		{"@admin", redisstore.Options{}, ""},
		{"@dangerous", redisstore.Options{}, ""},
	} {
		for name, connect := range servers.RedisClients {
			url := server.AsUser(t, "without-"+strings.Trim(refused.command, "@"), "rs:", "~*", "&*", "+@all", "-"+refused.command)
			o := refused.o
			o.Logger = slog.New(slog.DiscardHandler)
			s, err := redisstore.New(t.Context(), connect(t, url), &o)
			if refused.want != "" {
				assert.True(t, err != nil && strings.Contains(err.Error(), refused.want), "%s without %s: %v", name, refused.command, err)
				continue
			}
			assert.NoError(t, err, "%s without %s", name, refused.command)
			req := claimOf(1)
			req.Key.ID = retrysafe.KeyPart(name + refused.command + strings.Repeat("x", o.Replicas+1))
			got, err := s.Acquire(t.Context(), req)
			assert.NoError(t, err, "%s without %s: Acquire", name, refused.command)
			assert.Equal(t, got.Status, storeapi.StatusAcquired, "%s without %s", name, refused.command)
			page, err := s.List(t.Context(), storeapi.ListRequest{State: retrysafe.StateInProgress})
			assert.True(t, err == nil && len(page.Records) > 0, "%s without %s: List: %d, %v", name, refused.command, len(page.Records), err)
		}
	}
}

// TestRedisClusterRights: in a cluster the rights of docs/stores.md are enough, with CLUSTER and
// one of ROLE and INFO, and WAIT for replicas. Without CLUSTER no client finds the servers.
func TestRedisClusterRights(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisKinds[0].Cluster.Get(t)
	url := func(name, prefix string, rights ...string) string {
		for _, n := range cluster.Nodes {
			n.AsUser(t, name, prefix, rights...)
		}
		return strings.Replace(cluster.URL(), "://", "://"+name+":a-password@", 1)
	}
	for adapter, connect := range servers.RedisClients {
		for name, more := range map[string][]string{"role": {"+cluster", "+wait", "+role"}, "info": {"+cluster", "+wait", "+info"}} {
			prefix := servers.RedisPrefix()
			s, err := redisstore.New(t.Context(), connect(t, url(name+"-"+adapter, prefix, append(servers.LeastRights(t), more...)...)), &redisstore.Options{
				Prefix: prefix, Replicas: 1, ReplicaTime: time.Minute, Logger: slog.New(slog.DiscardHandler),
			})
			assert.NoError(t, err, "%s with %v", adapter, more)
			got, err := s.Acquire(t.Context(), claimOf(1))
			assert.NoError(t, err, "%s with %v: Acquire", adapter, more)
			assert.Equal(t, got.Status, storeapi.StatusAcquired, "%s with %v", adapter, more)
			page, err := s.List(t.Context(), storeapi.ListRequest{State: retrysafe.StateInProgress})
			assert.True(t, err == nil && len(page.Records) == 1, "%s with %v: List: %d, %v", adapter, more, len(page.Records), err)
		}
	}
	a, err := redisclient.ParseURL(url("no-cluster", "rs:", "~*", "&*", "+@all", "-cluster"))
	assert.NoError(t, err, "address")
	c, err := rueidisclient.Open(a)
	if err == nil {
		_ = c.Close()
	}
	assert.True(t, err != nil && strings.Contains(err.Error(), "NOPERM"), "rueidis without CLUSTER: %v", err)
}
