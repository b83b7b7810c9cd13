package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// redisFilter are the methods of both filters on Redis.
type redisFilter interface {
	filter.Prefilter
	Add(ctx context.Context, id []byte) (bool, error)
	MarkWhole(ctx context.Context) error
	Rebuild(ctx context.Context, ids func(func([]byte, error) bool), progress func(int)) (int, error)
	Stats(ctx context.Context) (filter.Stats, error)
}

// bloomOnRedis and hllOnRedis give Rebuild a return type that an interface can name.
type bloomOnRedis struct{ *filter.RedisBloom }

func (b bloomOnRedis) Rebuild(ctx context.Context, ids func(func([]byte, error) bool), progress func(int)) (int, error) {
	return b.RedisBloom.Rebuild(ctx, ids, progress)
}

type hllOnRedis struct{ *filter.RedisHyperLogLog }

func (h hllOnRedis) Rebuild(ctx context.Context, ids func(func([]byte, error) bool), progress func(int)) (int, error) {
	return h.RedisHyperLogLog.Rebuild(ctx, ids, progress)
}

func redisFilters(t *testing.T, c redisclient.Client, name string, o filter.Options) map[string]redisFilter {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Items == 0 {
		o.Items, o.FalsePositive = 5000, 1e-6
	}
	b, err := filter.NewRedisBloom(c, name, &o)
	assert.NoError(t, err, "a filter")
	h, err := filter.NewRedisHyperLogLog(c, name+" hll", &o)
	assert.NoError(t, err, "a sketch")
	return map[string]redisFilter{"bloom": bloomOnRedis{b}, "hyperloglog": hllOnRedis{h}}
}

func filterID(n int) []byte { return fmt.Appendf(nil, "order %d", n) }

func filterIDs(from, to int) (ids [][]byte) {
	for n := from; n < to; n++ {
		ids = append(ids, filterID(n))
	}
	return ids
}

func iterateIDs(ids [][]byte) func(func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// newOnes returns for how many of ids f says "surely new".
func newOnes(t *testing.T, f filter.Prefilter, ids [][]byte) (n int) {
	t.Helper()
	yes, err := f.AddBatch(t.Context(), ids)
	assert.NoError(t, err, "add")
	for _, is := range yes {
		if is {
			n++
		}
	}
	return n
}

// TestRedisFilter: with both adapters, on one server and on a cluster. A filter says "maybe" to
// everything until it is complete. Then a new id is new once, in whichever process, and a batch is
// one round trip.
func TestRedisFilter(t *testing.T) { //nolint:tparallel // they count round trips through one client
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		urls := map[string]string{"one": "redis://" + k.Start(t).Addr, "cluster": k.StartCluster(t).Steady().URL()}
		for where, url := range urls {
			for adapter, connect := range servers.RedisClients {
				c := &counted{Client: connect(t, url)}
				for kind, f := range redisFilters(t, c, "orders "+adapter, filter.Options{Prefix: "f:" + where}) {
					t.Run(where+" "+adapter+" "+kind, func(t *testing.T) {
						assert.Equal(t, newOnes(t, f, filterIDs(0, 100)), 0, "surely new before it is whole")
						n, err := f.Rebuild(t.Context(), iterateIDs(filterIDs(100, 2100)), nil)
						assert.True(t, n == 2000 && err == nil, "rebuild of %d: %v", n, err)
						assert.Equal(t, newOnes(t, f, filterIDs(0, 2100)), 0, "surely new of old ones, those of before the rebuild too")
						before := c.trips.Load()
						got := newOnes(t, f, filterIDs(3000, 4000))
						assert.Equal(t, c.trips.Load()-before, int64(1), "trips of a batch of 1000")
						assert.True(t, got >= 990 || kind == "hyperloglog" && got > 750, "surely new of 1000: %d", got)
						assert.Equal(t, newOnes(t, f, filterIDs(3000, 4000)), 0, "surely new of repeats")
						s, err := f.Stats(t.Context())
						assert.True(t, err == nil && s.Whole && s.Added == 4200 && s.SurelyNew == uint64(got), "stats %+v %v", s, err)
						if b, ok := f.(bloomOnRedis); ok {
							assert.True(t, s.Items == 3100 && s.Fill > 0 && s.FalsePositive < 1e-6 && !s.Overfull, "stats %+v", s)
							maybe, err := b.MaybeSeen(t.Context(), filterID(3000))
							assert.True(t, maybe && err == nil, "seen: %v", err)
							maybe, err = b.MaybeSeen(t.Context(), filterID(1<<30))
							assert.True(t, !maybe && err == nil, "not seen: %v", err)
						}
					})
				}
			}
		}
	})
}

// TestRedisFilterOneIsNew: of many processes that add one id at once, exactly one gets "new" (with
// a sketch, at most one).
func TestRedisFilterOneIsNew(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		url := "redis://" + k.Start(t).Addr
		for kind := range redisFilters(t, servers.RueidisTo(t, url), "x", filter.Options{}) {
			var isNew [300]atomic.Int32
			var all sync.WaitGroup
			for _, connect := range servers.RedisClients {
				f := redisFilters(t, connect(t, url), "orders", filter.Options{})[kind]
				assert.NoError(t, f.MarkWhole(t.Context()), "mark")
				for range 4 {
					all.Go(func() {
						for n := range isNew {
							if yes, _ := f.Add(t.Context(), filterID(n)); yes {
								isNew[n].Add(1)
							}
						}
					})
				}
			}
			all.Wait()
			for n := range isNew {
				got := isNew[n].Load()
				assert.True(t, got == 1 || kind == "hyperloglog" && got == 0, "%s: told that %d is new: %d", kind, n, got)
			}
		}
	})
}

// TestRedisFilterLost: after any loss of ids nothing is surely new until a rebuild has ended: a
// server that restarts empty or with an old copy, FLUSHALL, keys that are evicted or deleted one by
// one, a replica that takes over. Other options are refused.
func TestRedisFilterLost(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		lose := map[string]func(t *testing.T, s *servers.Redis){
			"flushed": func(_ *testing.T, s *servers.Redis) { servers.RedisDo(s.Addr, "FLUSHALL") },
			"the bits are evicted": func(_ *testing.T, s *servers.Redis) {
				servers.RedisDo(s.Addr, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*}:*')) do redis.call('DEL', k) end", 0)
			},
			"the hash is evicted": func(_ *testing.T, s *servers.Redis) {
				servers.RedisDo(s.Addr, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*}')) do redis.call('DEL', k) end", 0)
			},
			"it starts again, empty": func(t *testing.T, s *servers.Redis) {
				t.Helper()
				s.Kill()
				s.Start(t, t.TempDir())
			},
			"it starts again with a copy of before": func(t *testing.T, s *servers.Redis) {
				t.Helper()
				dir := s.Cmd.Args[6]
				s.Kill()
				s.Start(t, dir)
			},
		}
		for how, lose := range lose {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				s := k.Start(t)
				c := servers.RedisClients["go-redis"](t, "redis://"+s.Addr)
				for kind, f := range redisFilters(t, c, "orders", filter.Options{}) {
					assert.NoError(t, f.MarkWhole(t.Context()), "mark")
					newOnes(t, f, filterIDs(0, 500))
					servers.RedisDo(s.Addr, "SAVE")
					newOnes(t, f, filterIDs(500, 1000)) // no copy has these
					lose(t, s)
					waits.Eventually(t, "it answers", func() bool { _, err := f.AddBatch(t.Context(), filterIDs(0, 1)); return err == nil })
					assert.Equal(t, newOnes(t, f, filterIDs(900, 1000)), 0, "%s: surely new of old ones", kind)
					assert.Equal(t, newOnes(t, f, filterIDs(5000, 5100)), 0, "%s: surely new of any", kind)
					stats, err := f.Stats(t.Context())
					assert.True(t, err == nil && !stats.Whole, "%s: whole: %+v %v", kind, stats, err)

					_, err = f.Rebuild(t.Context(), func(yield func([]byte, error) bool) {
						for n := range 1000 {
							if n == 900 { // what was added by then is in no key any more
								newOnes(t, f, filterIDs(6000, 6001))
								lose(t, s)
								waits.Eventually(t, "it answers", func() bool { _, err := f.AddBatch(t.Context(), filterIDs(6000, 6001)); return err == nil })
							}
							if !yield(filterID(n), nil) {
								return
							}
						}
					}, nil)
					assert.ErrorIs(t, err, filter.ErrLost, "%s: a rebuild under which it is lost again", kind)
					assert.Equal(t, newOnes(t, f, filterIDs(7000, 7100)), 0, "%s: surely new of any", kind)
					_, err = f.Rebuild(t.Context(), iterateIDs(filterIDs(0, 1000)), nil)
					assert.NoError(t, err, "%s: the next rebuild", kind)
					assert.Equal(t, newOnes(t, f, filterIDs(0, 1000)), 0, "%s: surely new of old ones", kind)
					assert.True(t, newOnes(t, f, filterIDs(8000, 8100)) > 80, "%s: new ones", kind)
					o := filter.Options{Items: 5000, FalsePositive: 1e-6, Window: time.Hour}
					_, err = redisFilters(t, c, "orders", o)[kind].Add(t.Context(), filterID(0))
					assert.True(t, err != nil && strings.Contains(err.Error(), "other options"), "%s: another process with other options: %v", kind, err)
				}
			})
		}
	})
}

// TestRedisFilterFailover: after a replica takes over that lacks the last ids, everything is
// "maybe".
func TestRedisFilterFailover(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		primary := k.Start(t)
		host, port, _ := strings.Cut(primary.Addr, ":")
		replica := k.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
		waits.Eventually(t, "the replica follows", func() bool {
			return strings.Contains(servers.RedisDo(replica.Addr, "INFO", "replication"), "master_link_status:up")
		})
		for _, f := range redisFilters(t, servers.RueidisTo(t, primary.Addr), "orders", filter.Options{}) {
			assert.NoError(t, f.MarkWhole(t.Context()), "mark")
			newOnes(t, f, filterIDs(0, 100))
		}
		waits.Eventually(t, "the replica has all keys", func() bool { return servers.RedisDo(replica.Addr, "DBSIZE") == servers.RedisDo(primary.Addr, "DBSIZE") })
		servers.RedisDo(replica.Addr, "REPLICAOF", "NO", "ONE")
		for kind, f := range redisFilters(t, servers.RueidisTo(t, replica.Addr), "orders", filter.Options{}) {
			if b, ok := f.(bloomOnRedis); ok {
				maybe, err := b.MaybeSeen(t.Context(), filterID(1<<30))
				assert.True(t, maybe && err == nil, "not seen, by a server that may have lost ids: %v", err)
			}
			assert.Equal(t, newOnes(t, f, filterIDs(50, 250)), 0, "%s: surely new after the failover", kind)
		}
	})
}

// TestRedisFilterAway: if the server is unreachable, hangs or is full, there is an error, and
// nothing is surely new. The filter works again when the server does.
func TestRedisFilterAway(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		s := k.Start(t)
		fs := redisFilters(t, servers.RueidisTo(t, s.Addr), "orders", filter.Options{})
		refused := func(f redisFilter, kind, when string) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			isNew, err := f.Add(ctx, filterID(1<<20))
			assert.True(t, !isNew && err != nil, "%s, %s: %v, %v", kind, when, isNew, err)
			found, err := filter.LookUp(ctx, f, []string{"a", "b"}, 0, func(_ context.Context, maybe []string) (map[string]bool, error) {
				return map[string]bool{"a": true}, nil
			})
			assert.True(t, err == nil && found.Asked == 2 && found.FilterErr != nil, "%s, %s: all are looked up: %+v %v", kind, when, found, err)
		}
		for kind, f := range fs {
			assert.NoError(t, f.MarkWhole(t.Context()), "mark")
			resume := s.Stall()
			refused(f, kind, "a server that hangs")
			resume()
			waits.Eventually(t, "it goes on", func() bool { _, err := f.Add(t.Context(), filterID(1)); return err == nil })
			servers.RedisDo(s.Addr, "CONFIG", "SET", "maxmemory", "1")
			refused(f, kind, "a server that is full")
			servers.RedisDo(s.Addr, "CONFIG", "SET", "maxmemory", "0")
		}
		s.Kill()
		for kind, f := range fs {
			refused(f, kind, "no server")
		}
	})
}

// TestRedisFilterWindows: an id is remembered for all windows but one, and forgotten after all of
// them, and the keys of bits expire.
func TestRedisFilterWindows(t *testing.T) { //nolint:tparallel // the keys are checked after all of them
	t.Parallel()
	s := servers.StartRedis(t)
	c := servers.RueidisTo(t, s.Addr)
	const window = 400 * time.Millisecond
	o := filter.Options{Items: 100, FalsePositive: 1e-9, Window: window, Windows: 4}
	fs := redisFilters(t, c, "orders", o)
	for kind, f := range fs {
		t.Run(kind, func(t *testing.T) {
			assert.NoError(t, f.MarkWhole(t.Context()), "mark")
			begun := time.Now()
			assert.True(t, newOnes(t, f, filterIDs(0, 30)) > 25, "new at first")
			added := time.Now()
			remembered := 0
			waits.Eventually(t, "three windows pass", func() bool {
				if remembered < 10 {
					isNew, err := f.Add(t.Context(), filterID(remembered))
					age := time.Since(begun) // at least what the server saw
					assert.True(t, err == nil && (!isNew || age > 3*window), "after %v: new %v, %v", age, isNew, err)
					remembered++
				}
				return time.Since(added) > 4*window+window/2
			})
			assert.True(t, newOnes(t, f, filterIDs(20, 30)) > 5, "new after all windows")
		})
	}
	ends := ""
	waits.Eventually(t, "there are keys", func() bool { // unless all of them end before the look
		for _, f := range fs {
			_, err := f.Add(t.Context(), filterID(0))
			assert.NoError(t, err, "add")
		}
		ends = servers.RedisDo(s.Addr, "EVAL", `
local n = 0
for _, k in ipairs(redis.call('KEYS', '*}:*')) do
  n = n + 1
  if redis.call('PTTL', k) <= 0 then return 'no end: ' .. k end
end
return n`, 0)
		return ends != "0"
	})
	assert.True(t, ends != "" && !strings.Contains(ends, "no end"), "keys of bits: %s", ends)
}
