package integration_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
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

// persistent are what a server of a quorum has to be set to.
var persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

func quorumOn(t *testing.T, servers []*redisServer) *redislock.Quorum {
	t.Helper()
	var clients []redisclient.Client
	for _, s := range servers {
		clients = append(clients, redisClients["rueidis"](t, "redis://"+s.addr))
	}
	q, err := redislock.NewQuorum(t.Context(), clients, nil)
	assert.NoError(t, err, "NewQuorum")
	return q
}

// TestRedisQuorumLock runs it on three servers that do not know of each other, and on three of which one has died.
func TestRedisQuorumLock(t *testing.T) {
	t.Parallel()
	for _, dead := range []int{0, 1} {
		t.Run(fmt.Sprint(dead, " of them dead"), func(t *testing.T) {
			t.Parallel()
			servers := make([]*redisServer, 3)
			for i := range servers {
				servers[i] = startRedis(t, persistent...)
			}
			var next atomic.Int32
			both := [2]*redislock.Quorum{quorumOn(t, servers), quorumOn(t, servers)}
			for _, s := range servers[:dead] {
				s.murder()
			}
			locktest.Run(t, locktest.Config{Open: func(testing.TB) lock.Backend { return both[next.Add(1)%2] }})
		})
	}
}

// TestRedisQuorumFences: a majority that shares one server with the one before, and has slower clocks, gives a greater fence all the same.
func TestRedisQuorumFences(t *testing.T) {
	t.Parallel()
	servers := []*redisServer{startRedisShifted(t, time.Hour, persistent...), startRedis(t, persistent...), startRedisShifted(t, -time.Hour, persistent...)}
	locks := lock.New(quorumOn(t, servers), &lock.Options{Lease: 5 * time.Second})
	var last retrysafe.Fence
	for _, away := range []int{2, 0} {
		resume := servers[away].stall()
		held, err := locks.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock without server %d", away)
		assert.True(t, held.Fence() > last, "fence %d behind %d", held.Fence(), last)
		last = held.Fence()
		assert.NoError(t, held.Release(t.Context()), "Release")
		resume()
	}
	servers[0].murder()
	servers[1].murder()
	_, err := locks.TryLock(t.Context(), "x")
	assert.True(t, err != nil && !errors.Is(err, lock.ErrHeld), "one server alone: %v", err)
}

// TestRedisQuorumRefuses shows what a quorum is not offered on.
func TestRedisQuorumRefuses(t *testing.T) {
	t.Parallel()
	forgetful, safe := startRedis(t), startRedis(t, persistent...)
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

// TestRedisLockFormat: what is kept of a lock is as docs/formats.md says, and what is not a lock is not taken for one.
func TestRedisLockFormat(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := rueidisTo(t, server.addr)
	b, err := redislock.New(t.Context(), client, nil)
	assert.NoError(t, err, "New")
	get := redisclient.NewScript("get", "return redis.call('GET', KEYS[1])")
	stored := func() string {
		text, _ := client.Eval(t.Context(), redisclient.Call{Script: get, Keys: []string{"rs:lock:a b"}}).Value.(string)
		return text
	}
	r := lock.Request{Name: "a b", Lease: time.Minute, Owner: retrysafe.Owner([]byte("0123456789abcdef"))}
	g, err := b.TryLock(t.Context(), r)
	assert.NoError(t, err, "TryLock")
	var head []byte
	head = append(append(head, 1), r.Owner[:]...)
	head = binary.BigEndian.AppendUint64(head, uint64(g.Fence))
	text := stored()
	assert.Equal(t, len(text), 33, "bytes of a lock")
	assert.Equal(t, text[:25], string(head), "format, owner and fence")
	assert.Equal(t, binary.BigEndian.Uint64([]byte(text[25:])), uint64(g.Fence)+60_000_000, "the end of its lease, one minute behind the fence")
	assert.NoError(t, b.Unlock(t.Context(), r), "Unlock")
	assert.Equal(t, stored(), string(head)+strings.Repeat("\x00", 8), "released")
	redisDo(server.addr, "SET", "rs:lock:a b", "what is this")
	_, err = b.TryLock(t.Context(), r)
	assert.True(t, err != nil && !errors.Is(err, lock.ErrHeld), "something else under the name: %v", err)
	assert.Contains(t, err.Error(), "Prefix", "what to do")
	assert.Equal(t, redisDo(server.addr, "GET", "rs:lock:a b"), "what is this", "it is left alone")
}
