package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rival "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// The least that a lock and its release cost: two scripts, as bsm/redislock has them.
var (
	bareLock   = redisclient.NewScript("bare lock", "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0")
	bareUnlock = redisclient.NewScript("bare unlock", "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
)

// bareScripts runs the two scripts through rueidis alone, for one caller.
func bareScripts(b *testing.B, addr string) func(ctx context.Context, name string) error {
	b.Helper()
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	assert.NoError(b, err, "rueidis")
	b.Cleanup(raw.Close)
	for _, script := range []*redisclient.Script{bareLock, bareUnlock} {
		assert.NoError(b, raw.Do(b.Context(), raw.B().ScriptLoad().Script(script.Source).Build()).Error(), "SCRIPT LOAD")
	}
	return func(ctx context.Context, name string) error {
		for {
			had, err := raw.Do(ctx, raw.B().Evalsha().Sha1(bareLock.SHA1).Numkeys(1).Key(name).Arg("owner of 16 bytes", "30000").Build()).AsInt64()
			if err != nil {
				return err
			}
			if had == 1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		return raw.Do(ctx, raw.B().Evalsha().Sha1(bareUnlock.SHA1).Numkeys(1).Key(name).Arg("owner of 16 bytes").Build()).Error()
	}
}

// lockWays acquire a lock, wait for it if necessary, and release it. Ours send heartbeats and have
// a fence and a context; the rivals have none of these.
func lockWays(b *testing.B) map[string]func(ctx context.Context, name string) error {
	b.Helper()
	server := servers.StartRedis(b)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 100})
	b.Cleanup(func() { _ = plain.Close() })
	ours := func(c redisclient.Client) func(context.Context, string) error {
		backend, err := redislock.New(b.Context(), c, nil)
		assert.NoError(b, err, "New")
		locks := lock.New(backend, nil)
		b.Cleanup(func() { _ = locks.Shutdown(context.Background()) })
		return lockAndRelease(locks)
	}
	goredis, err := goredisclient.New(redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 100}))
	assert.NoError(b, err, "goredisclient")
	other, pool := rival.New(plain), redsync.New(redsyncpool.NewPool(plain))
	return map[string]func(context.Context, string) error{
		"ours rueidis":  ours(servers.RueidisTo(b, server.Addr)),
		"ours go-redis": ours(goredis),
		"bare scripts":  bareScripts(b, server.Addr),
		"bsm/redislock": func(ctx context.Context, name string) error {
			held, err := other.Obtain(ctx, name, 30*time.Second, &rival.Options{RetryStrategy: rival.LinearBackoff(time.Millisecond)})
			if err != nil {
				return err
			}
			return held.Release(ctx)
		},
		"redsync": func(ctx context.Context, name string) error {
			m := pool.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(1<<20), redsync.WithRetryDelay(time.Millisecond))
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = errors.New("not held")
			}
			return err
		},
	}
}

// BenchmarkRedisLock compares acquiring and releasing, in turn: with one caller, and with 64 that
// want one lock.
func BenchmarkRedisLock(b *testing.B) {
	ways := lockWays(b)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers ", callers), func(b *testing.B) { compareLocks(b, 7, callers, ways) })
	}
}

// compareLocks reports the median of the rounds, in which each way locks and releases in turn.
func compareLocks(b *testing.B, rounds, callers int, ways map[string]func(ctx context.Context, name string) error) {
	b.Helper()
	each := max(1, b.N/rounds/callers)
	took := map[string][]float64{}
	for range rounds {
		for name, way := range ways {
			begun := time.Now()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range each {
						if err := way(b.Context(), "x"); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			took[name] = append(took[name], float64(time.Since(begun).Microseconds())/float64(each*callers))
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, us := range took {
		slices.Sort(us)
		b.ReportMetric(us[rounds/2], "µs/"+strings.ReplaceAll(name, " ", "_"))
	}
}

// lockAndRelease returns a way for [compareLocks].
func lockAndRelease(locks *lock.Locker) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		held, err := locks.Lock(ctx, name)
		if err != nil {
			return err
		}
		return held.Release(ctx)
	}
}

// BenchmarkZooKeeperLock compares acquiring and releasing by one caller, in turn, with the lock of
// go-zookeeper, which has no fence.
func BenchmarkZooKeeperLock(b *testing.B) {
	server := servers.StartZooKeeper(b)
	backend, err := zklock.Open(b.Context(), []string{server.Addr}, nil)
	assert.NoError(b, err, "Open")
	b.Cleanup(func() { _ = backend.Close() })
	locks := lock.New(backend, nil)
	b.Cleanup(func() { _ = locks.Shutdown(context.Background()) })
	conn, _, err := zk.Connect([]string{server.Addr}, 10*time.Second, zk.WithLogInfo(false))
	assert.NoError(b, err, "Connect")
	b.Cleanup(conn.Close)
	compareLocks(b, 5, 1, map[string]func(context.Context, string) error{
		"ours": lockAndRelease(locks),
		"go-zookeeper": func(_ context.Context, name string) error {
			l := zk.NewLock(conn, "/"+name, zk.WorldACL(zk.PermAll))
			if err := l.Lock(); err != nil {
				return err
			}
			return l.Unlock()
		},
	})
}

// BenchmarkRedisLockAllocs counts the allocations of one lock and its release, including the
// client's.
func BenchmarkRedisLockAllocs(b *testing.B) {
	for name, way := range lockWays(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := way(b.Context(), "x"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRedisLockHandOver measures the median time from the call of Release until a waiter of
// another process (here another client) has the lock, in round trips of a script that does nothing.
func BenchmarkRedisLockHandOver(b *testing.B) {
	server := servers.StartRedis(b)
	nothing := redisclient.NewScript("nothing", "#!lua\nreturn 1")
	var lockers [2]*lock.Locker
	var client redisclient.Client
	for i := range lockers {
		client = servers.RueidisTo(b, server.Addr)
		backend, err := redislock.New(b.Context(), client, nil)
		assert.NoError(b, err, "New")
		lockers[i] = lock.New(backend, nil)
	}
	var trips, waits []time.Duration
	for range max(100, b.N) {
		// As long as the waiter waits below: waking from sleep takes a while.
		time.Sleep(5 * time.Millisecond)
		begun := time.Now()
		assert.NoError(b, client.Eval(b.Context(), redisclient.Call{Script: nothing, Keys: []string{"x"}}).Err, "nothing")
		trips = append(trips, time.Since(begun))
		held, err := lockers[0].Lock(b.Context(), "x")
		assert.NoError(b, err, "Lock")
		had := make(chan time.Time)
		go func() {
			next, err := lockers[1].Lock(b.Context(), "x")
			had <- time.Now()
			if err == nil {
				_ = next.Release(b.Context())
			}
			had <- time.Now()
		}()
		time.Sleep(5 * time.Millisecond) // the waiter waits by now
		begun = time.Now()
		assert.NoError(b, held.Release(b.Context()), "Release")
		waits = append(waits, (<-had).Sub(begun))
		<-had
	}
	slices.Sort(trips)
	slices.Sort(waits)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(waits[len(waits)/2].Nanoseconds()), "ns/handover")
	b.ReportMetric(float64(waits[len(waits)/2])/float64(trips[len(trips)/2]), "trips/handover")
}
