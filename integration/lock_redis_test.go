package integration_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/redisclient"
)

// TestRedisLock runs the contract of locks on each kind of server, through both clients, and through one that cannot subscribe.
func TestRedisLock(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{
		"single":   func(t *testing.T) string { t.Helper(); return "redis://" + startRedis(t).addr },
		"sentinel": func(t *testing.T) string { t.Helper(); return startPair(t).url() },
		"cluster":  func(t *testing.T) string { t.Helper(); return startCluster(t).url() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			o := &redislock.Options{Replicas: redislock.All}
			if name == "single" {
				o.Replicas = 0
			}
			for client, connect := range redisClients {
				t.Run(client, func(t *testing.T) {
					t.Parallel()
					runLocks(t, o, func() redisclient.Client { return connect(t, url) })
				})
			}
			if name == "single" {
				t.Run("no messages", func(t *testing.T) {
					t.Parallel()
					runLocks(t, o, func() redisclient.Client { return onlyEval{redisClients["rueidis"](t, url)} })
				})
			}
		})
	}
}

// onlyEval hides what a client can do but to run scripts.
type onlyEval struct{ redisclient.Client }

func runLocks(t *testing.T, o *redislock.Options, connect func() redisclient.Client) {
	t.Helper()
	locktest.Run(t, locktest.Config{Open: func(tb testing.TB) lock.Backend {
		tb.Helper()
		b, err := redislock.New(tb.Context(), connect(), o)
		assert.NoError(tb, err, "New")
		return b
	}})
}

// TestRedisQuorumLock runs it on three servers that do not know of each other, and again while one of them is away.
func TestRedisQuorumLock(t *testing.T) {
	t.Parallel()
	servers := make([]*redisServer, 3)
	for i := range servers {
		servers[i] = startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	}
	open := func(tb testing.TB) lock.Backend {
		tb.Helper()
		var clients []redisclient.Client
		for _, s := range servers {
			clients = append(clients, redisClients["rueidis"](t, "redis://"+s.addr))
		}
		q, err := redislock.NewQuorum(t.Context(), clients, nil)
		assert.NoError(tb, err, "NewQuorum")
		return q
	}
	t.Run("all there", func(t *testing.T) {
		t.Parallel()
		locktest.Run(t, locktest.Config{Open: open})
	})
}

// TestRedisQuorumRefuses shows what a quorum is not offered on.
func TestRedisQuorumRefuses(t *testing.T) {
	t.Parallel()
	forgetful, safe := startRedis(t), startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := func(s *redisServer) redisclient.Client { return redisClients["rueidis"](t, "redis://"+s.addr) }
	for want, clients := range map[string][]redisclient.Client{
		"three or five":      {client(safe), client(safe)},
		"appendfsync always": {client(safe), client(safe), client(forgetful)},
		"this one cannot":    {client(safe), client(safe), onlyEval{client(safe)}},
	} {
		_, err := redislock.NewQuorum(t.Context(), clients, nil)
		assert.True(t, err != nil, "a quorum is refused where %q", want)
		assert.Contains(t, err.Error(), want, "why")
	}
}
