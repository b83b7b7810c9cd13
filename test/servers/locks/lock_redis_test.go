package locks_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestRedisLock runs the contract of locks on each kind of server, with both clients, with one that
// cannot subscribe, and on a server without CONFIG as a user with the rights of docs/stores.md.
func TestRedisLock(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, testRedisLock)
}

func testRedisLock(t *testing.T, k *servers.RedisKind) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) string{
		"least rights": func(t *testing.T) string {
			t.Helper()
			return k.Hosted.Get(t).AsUser(t, "locks", "rs:", servers.LeastRights(t)...)
		},
		"single":   func(t *testing.T) string { t.Helper(); return "redis://" + k.Shared.Get(t).Addr },
		"sentinel": func(t *testing.T) string { t.Helper(); return k.StartPair(t).Steady().URL() },
		"cluster":  func(t *testing.T) string { t.Helper(); return k.Cluster.Get(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			o := &redislock.Options{Replicas: redislock.All, ReplicaTime: time.Minute}
			if name == "single" || name == "least rights" {
				o.Replicas = 0
			}
			for client, connect := range servers.RedisClients {
				if client == "go-redis" && name != "single" && name != "sentinel" && !waits.LongSoak() || client == "rueidis" && name == "sentinel" && !waits.LongSoak() {
					continue // one client is enough here
				}
				if client == "go-redis" && name == "single" && k != servers.RedisKinds[0] {
					continue // it is used with Sentinel
				}
				t.Run(client, func(t *testing.T) {
					t.Parallel()
					runLocks(t, o, true, func() redisclient.Client { return connect(t, url) })
				})
			}
			if name == "single" && k == servers.RedisKinds[0] {
				t.Run("no messages", func(t *testing.T) {
					t.Parallel()
					runLocks(t, o, false, func() redisclient.Client { return onlyEval{servers.RedisClients["rueidis"](t, url)} })
				})
			}
		})
	}
}

// onlyEval hides all of a client but running scripts.
type onlyEval struct{ redisclient.Client }

func runLocks(t *testing.T, o *redislock.Options, lists bool, connect func() redisclient.Client) {
	t.Helper()
	locktest.Run(t, locktest.Config{Lists: lists, ListsTwice: true, Open: func(tb testing.TB) lock.Backend {
		tb.Helper()
		b, err := redislock.New(tb.Context(), connect(), o)
		assert.NoError(tb, err, "New")
		return b
	}})
}

// persistent are the settings that a server of a quorum needs.
var persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

// patient lets a quorum wait for servers on a busy machine.
var patient = &redislock.Options{ServerTime: 30 * time.Second}

func quorumOn(t *testing.T, nodes []*servers.Redis) *redislock.Quorum {
	t.Helper()
	var clients []redisclient.Client
	for _, s := range nodes {
		clients = append(clients, servers.RedisClients["rueidis"](t, "redis://"+s.Addr))
	}
	q, err := redislock.NewQuorum(t.Context(), clients, patient)
	assert.NoError(t, err, "NewQuorum")
	return q
}

// TestRedisQuorumLock runs the contract on three independent servers, and on three of which one has
// died.
func TestRedisQuorumLock(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		for _, dead := range []int{0, 1} {
			t.Run(fmt.Sprint(dead, " of them dead"), func(t *testing.T) {
				t.Parallel()
				nodes := make([]*servers.Redis, 3)
				for i := range nodes {
					nodes[i] = k.Start(t, persistent...)
				}
				var next atomic.Int32
				both := [2]*redislock.Quorum{quorumOn(t, nodes), quorumOn(t, nodes)}
				for _, s := range nodes[:dead] {
					s.Murder()
				}
				locktest.Run(t, locktest.Config{Open: func(testing.TB) lock.Backend { return both[next.Add(1)%2] }})
			})
		}
	})
}

// TestRedisQuorumFences: a majority that shares one server with the one before, and has slower
// clocks, still gives a greater fence.
func TestRedisQuorumFences(t *testing.T) {
	t.Parallel()
	nodes := []*servers.Redis{servers.StartRedisShifted(t, time.Hour, persistent...), servers.StartRedis(t, persistent...), servers.StartRedisShifted(t, -time.Hour, persistent...)}
	locks := lock.New(quorumOn(t, nodes), &lock.Options{Lease: time.Minute})
	var last retrysafe.Fence
	for _, away := range []int{2, 0} {
		resume := nodes[away].Stall()
		held, err := locks.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock without server %d", away)
		assert.True(t, held.Fence() > last, "fence %d behind %d", held.Fence(), last)
		last = held.Fence()
		assert.NoError(t, held.Release(t.Context()), "Release")
		resume()
	}
	nodes[0].Murder()
	nodes[1].Murder()
	_, err := locks.TryLock(t.Context(), "x")
	assert.True(t, err != nil && !errors.Is(err, lock.ErrHeld), "one server alone: %v", err)
}

// TestRedisQuorumRefuses: the servers that a quorum refuses.
func TestRedisQuorumRefuses(t *testing.T) {
	t.Parallel()
	forgetful, safe, other, slack := servers.StartRedis(t), servers.StartRedis(t, persistent...), servers.StartRedis(t, persistent...), servers.StartRedis(t, append(persistent, "--no-appendfsync-on-rewrite", "yes")...)
	client := func(s *servers.Redis) redisclient.Client {
		return servers.RedisClients["rueidis"](t, "redis://"+s.Addr)
	}
	for want, clients := range map[string][]redisclient.Client{
		"three or five":      {client(safe), client(safe)},
		"appendfsync always": {client(safe), client(other), client(forgetful)},
		"server 3":           {client(safe), client(other), client(slack)},
		"fail apart":         {client(safe), client(safe), client(other)},
		"this one cannot":    {client(safe), client(other), onlyEval{client(safe)}},
	} {
		_, err := redislock.NewQuorum(t.Context(), clients, nil)
		assert.True(t, err != nil, "a quorum is refused where %q", want)
		assert.Contains(t, err.Error(), want, "why")
	}
}

// TestRedisLockFormat: a lock is stored as docs/formats.md says, and a key that is not a lock is
// not mistaken for one.
func TestRedisLockFormat(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		server := k.Start(t)
		client := servers.RueidisTo(t, server.Addr)
		b, err := redislock.New(t.Context(), client, nil)
		assert.NoError(t, err, "New")
		get := redisclient.NewScript("get", "return redis.call('GET', KEYS[1])")
		stored := func() string {
			text, _ := client.Eval(t.Context(), redisclient.Call{Script: get, Keys: []string{"rs:lock:a b"}}).Value.(string)
			return text
		}
		r := lock.Request{Name: "a b", Lease: time.Minute, Owner: storeapi.Owner([]byte("0123456789abcdef"))}
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
		servers.RedisDo(server.Addr, "SET", "rs:lock:a b", "what is this")
		_, err = b.TryLock(t.Context(), r)
		assert.True(t, err != nil && !errors.Is(err, lock.ErrHeld), "something else under the name: %v", err)
		assert.Contains(t, err.Error(), "Prefix", "what to do")
		assert.Equal(t, servers.RedisDo(server.Addr, "GET", "rs:lock:a b"), "what is this", "it is left alone")
	})
}

// lateClient delays calls of some scripts. Their callers get an error, as if the connection was
// cut, and the calls reach the server when the test releases them.
type lateClient struct {
	*rueidisclient.Client
	all   *sync.WaitGroup
	letGo <-chan struct{}
	late  func(script string) bool
}

func (c lateClient) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	if !c.late(call.Script.Name) {
		return c.Client.Eval(ctx, call)
	}
	c.all.Go(func() {
		<-c.letGo
		c.Client.Eval(context.WithoutCancel(ctx), call)
	})
	return redisclient.Reply{Err: errors.New("connection cut")}
}

// TestRedisQuorumLateCalls: a try that finds no majority is released, and the next one gets the
// lock. Delayed calls of the first try, locks and releases, change nothing when they arrive.
func TestRedisQuorumLateCalls(t *testing.T) {
	t.Parallel()
	var late sync.WaitGroup
	letGo := make(chan struct{})
	var clients, others []redisclient.Client
	for i := range 3 {
		url := "redis://" + servers.StartRedis(t, persistent...).Addr
		var seen sync.Map
		clients = append(clients, lateClient{servers.RueidisTo(t, url), &late, letGo, func(script string) bool {
			_, again := seen.LoadOrStore(script, true)
			return !again && i > 0
		}})
		others = append(others, servers.RueidisTo(t, url))
	}
	q, err := redislock.NewQuorum(t.Context(), clients, patient)
	assert.NoError(t, err, "NewQuorum")
	beside, err := redislock.NewQuorum(t.Context(), others, patient)
	assert.NoError(t, err, "NewQuorum")
	held, err := lock.New(q, nil).TryLock(t.Context(), "x")
	assert.NoError(t, err, "the second try")
	close(letGo)
	late.Wait()
	_, err = lock.New(beside, nil).TryLock(t.Context(), "x")
	assert.ErrorIs(t, err, lock.ErrHeld, "another one, when all has come")
	assert.NoError(t, held.Release(t.Context()), "Release")
}

// lookCounter counts how often a waiter polls.
type lookCounter struct {
	redisclient.Client
	n *atomic.Int32
}

func (c lookCounter) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	if call.Script.Name == "left" {
		c.n.Add(1)
	}
	return c.Client.Eval(ctx, call)
}

func (c lookCounter) Subscribe(ctx context.Context, channel string, on func(string)) error {
	return c.Client.(redisclient.Subscriber).Subscribe(ctx, channel, on) //nolint:errcheck,forcetypeassert // both clients can
}

// TestRedisLockWakesByMessage: a waiter has polled once, when its subscription became active, and
// then the message of the release wakes it. If a release takes over a second on a busy machine, the
// waiter polls again; then the test runs another round.
func TestRedisLockWakesByMessage(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		server := k.Start(t)
		for name, connect := range servers.RedisClients {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				open := func(c redisclient.Client) *lock.Locker {
					b, err := redislock.New(t.Context(), c, nil)
					assert.NoError(t, err, "New")
					return lock.New(b, nil)
				}
				looks := lookCounter{Client: connect(t, "redis://"+server.Addr), n: new(atomic.Int32)}
				holder, waiter := open(connect(t, "redis://"+server.Addr)), open(looks)
				for round := range 20 {
					name := fmt.Sprint(name, round)
					held, err := holder.Lock(t.Context(), name)
					assert.NoError(t, err, "Lock")
					looks.n.Store(0)
					had := make(chan *lock.Lock)
					go func() {
						next, _ := waiter.Lock(t.Context(), name)
						had <- next
					}()
					waits.Eventually(t, "the waiter has looked", func() bool { return looks.n.Load() > 0 })
					assert.NoError(t, held.Release(t.Context()), "Release")
					assert.NoError(t, (<-had).Release(t.Context()), "Release of the waiter")
					if looks.n.Load() == 1 {
						return
					}
				}
				t.Error("nobody is woken by a message")
			})
		}
	})
}

// TestRedisLockLeavesNoChannel: after the last waiter of a name the server has no channel for it.
func TestRedisLockLeavesNoChannel(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	for name, connect := range servers.RedisClients {
		b, err := redislock.New(t.Context(), connect(t, "redis://"+server.Addr), nil)
		assert.NoError(t, err, "New")
		locks := lock.New(b, nil)
		other, err := redislock.New(t.Context(), connect(t, "redis://"+server.Addr), nil)
		assert.NoError(t, err, "New")
		others := lock.New(other, nil)
		for n := range 10 {
			held, err := others.Lock(t.Context(), fmt.Sprint(name, n))
			assert.NoError(t, err, "Lock")
			var all sync.WaitGroup
			for _, l := range []*lock.Locker{locks, lock.New(b, nil)} {
				// Two waiters of one client on one channel.
				all.Go(func() {
					assert.NoError(t, l.With(t.Context(), fmt.Sprint(name, n), func(context.Context, *lock.Lock) error { return nil }), "With")
				})
			}
			waits.Eventually(t, "they wait", func() bool { return servers.RedisDo(server.Addr, "PUBSUB", "CHANNELS") != "[]" })
			assert.NoError(t, held.Release(t.Context()), "Release")
			all.Wait()
		}
		waits.Eventually(t, "no channel is left", func() bool { return servers.RedisDo(server.Addr, "PUBSUB", "CHANNELS") == "[]" })
	}
}

// TestRedisLocksAmongManyKeys: a call looks at a bounded number of keys, and the pages still have
// each lock once.
func TestRedisLocksAmongManyKeys(t *testing.T) {
	t.Parallel()
	client := servers.RedisClients["rueidis"](t, "redis://"+servers.StartRedis(t).Addr)
	fill := redisclient.NewScript("fill", `for i = 1, 2500 do redis.call('SET', KEYS[1] .. i, '') end return 1`)
	for part := range 100 { // in parts: a client gives up on a script that runs for seconds
		call := redisclient.Call{Script: fill, Keys: []string{fmt.Sprintf("other:%d:", part)}}
		assert.NoError(t, client.Eval(t.Context(), call).Err, "other keys")
	}
	b, err := redislock.New(t.Context(), client, nil)
	assert.NoError(t, err, "New")
	const locks = 2500
	for i := range locks {
		r := lock.Request{Name: fmt.Sprint("n", i), Owner: storeapi.Owner{1}, Lease: time.Hour}
		_, err := b.TryLock(t.Context(), r)
		assert.NoError(t, err, "TryLock")
	}
	for _, limit := range []int{1000, 30} {
		seen, pages := map[string]int{}, 0
		for r := (lock.ListRequest{Limit: limit}); ; pages++ {
			page, err := b.List(t.Context(), r)
			assert.NoError(t, err, "List")
			assert.True(t, len(page.Locks) <= limit, "a page has %d locks, want at most %d", len(page.Locks), limit)
			for _, h := range page.Locks {
				seen[h.Name]++
			}
			if r.After = page.Next; page.Next == "" {
				break
			}
		}
		for name, n := range seen {
			assert.Equal(t, n, 1, "how often %s is listed", name)
		}
		assert.Equal(t, len(seen), locks, "locks that are listed")
		assert.True(t, pages >= 2, "%d pages, want several: one call does not look at all keys", pages)
	}
	_, err = b.List(t.Context(), lock.ListRequest{After: "elsewhere", Limit: 1})
	assert.True(t, err != nil, "a place that List has not returned is refused")
}

// TestLocksWhileKeysGo: a lock that is held is on some page of a list, whatever happens to other
// keys between two pages: runs of SCAN from the same cursor cover more of the server when keys are
// gone.
func TestLocksWhileKeysGo(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	b, err := redislock.New(t.Context(), servers.RedisClients["rueidis"](t, "redis://"+server.Addr), nil)
	assert.NoError(t, err, "New")
	const held, others, gone = 40, 8000, 400
	for i := range held {
		r := lock.Request{Name: fmt.Sprint("lock-", i), Lease: 10 * time.Minute, Owner: storeapi.Owner{1, byte(i)}}
		_, err := b.TryLock(t.Context(), r)
		assert.NoError(t, err, "lock %d", i)
	}
	for _, limit := range []int{1, 3, 7} {
		servers.RedisDo(server.Addr, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'other-' .. i, '') end", 0, others)
		listed, deleted := map[string]bool{}, 0
		for after, more := "", true; more; {
			page, err := b.List(t.Context(), lock.ListRequest{After: after, Limit: limit})
			assert.NoError(t, err, "list")
			assert.True(t, len(page.Locks) <= limit, "a page of %d has %d locks", limit, len(page.Locks))
			for _, h := range page.Locks {
				listed[h.Name] = true
			}
			servers.RedisDo(server.Addr, "EVAL", "for i = ARGV[1], ARGV[2] do redis.call('DEL', 'other-' .. i) end", 0, deleted+1, deleted+gone)
			deleted += gone
			after, more = page.Next, page.Next != ""
		}
		assert.Equal(t, len(listed), held, "locks on pages of %d", limit)
	}
}
