package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// tally counts what a load has seen: how its calls ended, and how often each key's work ran.
type tally struct {
	calls atomic.Int64

	mu   sync.Mutex
	ends map[string]int
	runs map[string]int
}

func (y *tally) noteError(err error) {
	y.calls.Add(1)
	what := "other: " + fmt.Sprint(err)
	for _, known := range []error{
		retrysafe.ErrInDoubt, retrysafe.ErrLeaseLost, retrysafe.ErrInProgress, retrysafe.ErrAttemptFailed, retrysafe.ErrUnavailable, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, known) {
			what = known.Error()
			break
		}
	}
	if err == nil {
		what = "ok"
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ends[what]++
}

// keysRunTwice returns how many keys' work ran more than once.
func (y *tally) keysRunTwice() (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, runs := range y.runs {
		if runs > 1 {
			n++
		}
	}
	return n
}

// failoverLoad calls keys over several engines, each key from two sides at once and again later,
// until stop is closed.
type failoverLoad struct {
	tally
	t       *testing.T
	engines []*retrysafe.Engine
	onDoubt retrysafe.OnDoubt
	stop    chan struct{}
	all     sync.WaitGroup
	last    atomic.Int64
}

func newLoad(t *testing.T, onDoubt retrysafe.OnDoubt, engines ...*retrysafe.Engine) *failoverLoad {
	t.Helper()
	l := &failoverLoad{t: t, engines: engines, onDoubt: onDoubt, stop: make(chan struct{})}
	l.ends, l.runs = map[string]int{}, map[string]int{}
	for g := range 6 {
		l.all.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				id := fmt.Sprint(l.last.Add(1) / 2) // each key is called about twice at once
				_, _ = l.callKey(g, id)
			}
		})
	}
	return l
}

func (l *failoverLoad) callKey(g int, id string) (res retrysafe.Result[string], err error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 4*time.Second)
	defer cancel()
	res, err = retrysafe.Do(ctx, l.engines[g%len(l.engines)], teststores.OrderKey(id), func(context.Context) (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs[id]++
		return fmt.Sprintf("run %d of %s", l.runs[id], id), nil
	})
	l.noteError(err)
	return res, err
}

// stopLoad stops the load and calls every key again, as clients without an answer do.
func (l *failoverLoad) stopLoad() {
	close(l.stop)
	l.all.Wait()
	ids := make(chan int64)
	for g := range 6 {
		l.all.Go(func() {
			for id := range ids {
				_, _ = l.callKey(g, fmt.Sprint(id))
			}
		})
	}
	for id := range l.last.Load()/2 + 1 {
		ids <- id
	}
	close(ids)
	l.all.Wait()
}

func pairFailover(t *testing.T, k *servers.RedisKind) *servers.Failover {
	t.Helper()
	return k.FailoverOfAPair(t)
}

func clusterFailover(t *testing.T, k *servers.RedisKind) *servers.Failover {
	t.Helper()
	c := k.StartCluster(t)
	return &servers.Failover{
		URL:   c.URL(),
		Sever: func() { servers.Sever(c.Nodes[0], c.Nodes[3]) },
		Kill:  c.Nodes[0].Murder,
		Heal: func() {
			waits.Eventually(t, "the replica is a primary", func() bool {
				return strings.Contains(servers.RedisDo(c.Nodes[3].Addr, "INFO", "replication"), "role:master")
			})
			servers.Mend(c.Nodes[3])
			args := c.Nodes[0].Cmd.Args
			c.Nodes[0].Start(t, servers.ArgOf(args, "--dir"), "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port",
				servers.ArgOf(args, "--cluster-port"), "--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
			waits.Eventually(t, "the old primary follows", func() bool {
				return strings.Contains(servers.RedisDo(c.Nodes[3].Addr, "INFO", "replication"), "state=online")
			})
		},
	}
}

// TestRedisPrimaryKilled kills the primary under load, a moment after its replica was disconnected.
// If claims wait for the replicas, no key runs twice under Refuse; if they do not, some may.
// Afterwards the same clients continue.
func TestRedisPrimaryKilled(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, testRedisPrimaryKilled)
}

func testRedisPrimaryKilled(t *testing.T, k *servers.RedisKind) {
	t.Helper()
	for name, start := range map[string]func(*testing.T, *servers.RedisKind) *servers.Failover{"sentinel": pairFailover, "cluster": clusterFailover} {
		for _, c := range []struct {
			name     string
			replicas int
			onDoubt  retrysafe.OnDoubt
		}{
			{"confirmed", 1, retrysafe.Refuse},
			{"unconfirmed", 0, retrysafe.Refuse},
			{"confirmed, reexecute", 1, retrysafe.Reexecute},
		} {
			if c.replicas == 1 && name == "sentinel" {
				c.replicas = redisstore.All
			}
			if k != servers.RedisKinds[0] && (c.replicas == 0 || c.onDoubt == retrysafe.Reexecute) {
				continue // the first kind shows that the test can fail
			}
			only := k.Client("", map[string]string{"sentinel": "go-redis", "cluster": "rueidis"}[name])
			for adapter := range servers.RedisClients {
				if only != "" && adapter != only {
					continue
				}
				if adapter != "rueidis" && (c.replicas == 0 || c.onDoubt == retrysafe.Reexecute) && !waits.LongSoak() {
					continue // one client is enough
				}
				t.Run(fmt.Sprint(name, ", ", adapter, ", ", c.name), func(t *testing.T) {
					t.Parallel()
					killPrimary(t, start(t, k), adapter, c.replicas, c.onDoubt)
				})
			}
		}
	}
}

// TestSoakRedisPrimaryKilled repeats it in the long run.
func TestSoakRedisPrimaryKilled(t *testing.T) {
	t.Parallel()
	if !waits.LongSoak() {
		return // the test above is the short form
	}
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			for round := range 20 {
				t.Run(fmt.Sprint("sentinel ", round), func(t *testing.T) {
					killPrimary(t, pairFailover(t, servers.RedisKinds[0]), adapter, redisstore.All, retrysafe.Refuse)
				})
				t.Run(fmt.Sprint("cluster ", round), func(t *testing.T) {
					killPrimary(t, clusterFailover(t, servers.RedisKinds[0]), adapter, 1, retrysafe.Refuse)
				})
			}
		})
	}
}

func killPrimary(t *testing.T, f *servers.Failover, adapter string, replicas int, onDoubt retrysafe.OnDoubt) {
	t.Helper()
	var engines []*retrysafe.Engine
	var stores []*redisstore.Store
	for range 2 {
		s := teststores.Redis(t, servers.RedisClients[adapter](t, f.URL), &redisstore.Options{Replicas: replicas, ReplicaTime: time.Second})
		stores = append(stores, s)
		engines = append(engines, teststores.ShortEngine(t, s, retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: onDoubt}))
	}
	l := newLoad(t, onDoubt, engines...)
	waits.Eventually(t, "the load runs", func() bool { return l.calls.Load() > 200 })
	f.Sever()
	time.Sleep(100 * time.Millisecond)
	before := l.calls.Load()
	killed := time.Now()
	f.Kill()
	f.Heal()
	healed := time.Since(killed)
	waits.Eventually(t, "the same clients go on", func() bool {
		for g := range engines {
			if res, err := l.callKey(g, fmt.Sprint("after ", time.Now().UnixNano())); err != nil || !res.Stored {
				return false
			}
		}
		return true
	})
	back := time.Since(killed)
	time.Sleep(200 * time.Millisecond)
	l.stopLoad()
	var inDoubt int
	waits.Eventually(t, "the records in doubt are listed", func() bool {
		// a client may still leave the old primary
		all, err := findInDoubt(t, stores[0])
		inDoubt = len(all)
		return err == nil
	})
	keys := l.last.Load()/2 + 1
	t.Logf("%d calls of %d keys (%d before the kill), healed after %v, back after %v: %v; %d records in doubt, %d doubles",
		l.calls.Load(), keys, before, healed.Round(time.Millisecond), back.Round(time.Millisecond), l.ends, inDoubt, l.keysRunTwice())
	if replicas != 0 && onDoubt == retrysafe.Refuse {
		assert.Equal(t, l.keysRunTwice(), 0, "keys whose work ran twice")
	}
	for what := range l.ends {
		assert.True(t, !strings.HasPrefix(what, "other"), "a call ended with %s", what)
	}
	assert.True(t, inDoubt < int(keys/4) || !waits.LongSoak(), "few keys are in doubt: %d of %d", inDoubt, keys)
}
