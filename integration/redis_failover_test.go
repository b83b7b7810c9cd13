package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisstore"
)

// tally counts what a load has seen: how its calls ended, and how often each key's work ran.
type tally struct {
	calls atomic.Int64

	mu   sync.Mutex
	ends map[string]int
	runs map[string]int
}

func (y *tally) note(err error) {
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

// doubles returns how many keys' work ran more than once.
func (y *tally) doubles() (n int) {
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
				_, _ = l.call(g, id)
			}
		})
	}
	return l
}

func (l *failoverLoad) call(g int, id string) (res retrysafe.Result[string], err error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 4*time.Second)
	defer cancel()
	res, err = retrysafe.Do(ctx, l.engines[g%len(l.engines)], orderKey(id), func(context.Context) (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs[id]++
		return fmt.Sprintf("run %d of %s", l.runs[id], id), nil
	})
	l.note(err)
	return res, err
}

// end stops the load and calls every key again, as clients without an answer do.
func (l *failoverLoad) end() {
	close(l.stop)
	l.all.Wait()
	ids := make(chan int64)
	for g := range 6 {
		l.all.Go(func() {
			for id := range ids {
				_, _ = l.call(g, fmt.Sprint(id))
			}
		})
	}
	for id := range l.last.Load()/2 + 1 {
		ids <- id
	}
	close(ids)
	l.all.Wait()
}

// failover is a set of servers whose primary can be killed.
type failover struct {
	url string
	// sever disconnects the replica for the last moment of the primary, so that only the primary
	// has its last writes.
	sever func()
	kill  func()
	// heal brings the killed server back, as a replica, after another one has become the primary.
	heal func()
}

func pairFailover(t *testing.T) *failover {
	t.Helper()
	return pairFailoverOf(t)
}

// pairFailoverOf returns a failover with the given server arguments.
func pairFailoverOf(t *testing.T, args ...string) *failover {
	t.Helper()
	p := startPair(t, args...)
	return &failover{
		url:   p.url(),
		sever: func() { sever(p.primary, p.replica) },
		kill:  p.primary.murder,
		heal: func() {
			eventually(t, "the replica is the primary", func() bool {
				return strings.Contains(redisDo(p.replica.addr, "INFO", "replication"), "role:master")
			})
			mend(p.replica)
			host, port, _ := strings.Cut(p.replica.addr, ":")
			p.primary.start(t, t.TempDir(), append([]string{"--repl-diskless-sync-delay", "0", "--replicaof", host + " " + port}, args...)...)
			eventually(t, "the old primary follows", func() bool { return linked(p.replica) })
		},
	}
}

func clusterFailover(t *testing.T) *failover {
	t.Helper()
	c := startCluster(t)
	return &failover{
		url:   c.url(),
		sever: func() { sever(c.nodes[0], c.nodes[3]) },
		kill:  c.nodes[0].murder,
		heal: func() {
			eventually(t, "the replica is a primary", func() bool {
				return strings.Contains(redisDo(c.nodes[3].addr, "INFO", "replication"), "role:master")
			})
			mend(c.nodes[3])
			args := c.nodes[0].cmd.Args
			c.nodes[0].start(t, argOf(args, "--dir"), "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port",
				argOf(args, "--cluster-port"), "--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
			eventually(t, "the old primary follows", func() bool {
				return strings.Contains(redisDo(c.nodes[3].addr, "INFO", "replication"), "state=online")
			})
		},
	}
}

func argOf(args []string, name string) string {
	for i, a := range args {
		if a == name {
			return args[i+1]
		}
	}
	return ""
}

// sever is cutOff for use outside the test's goroutine.
func sever(primary, replica *redisServer) {
	redisDo(replica.addr, "CONFIG", "SET", "masterauth", "no such password")
	redisDo(primary.addr, "CLIENT", "KILL", "TYPE", "replica")
}

func mend(s *redisServer) { redisDo(s.addr, "CONFIG", "SET", "masterauth", "") }

// murder ends the process as a crash of its machine does.
func (s *redisServer) murder() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// TestRedisPrimaryKilled kills the primary under load, a moment after its replica was disconnected.
// If claims wait for the replicas, no key runs twice under Refuse; if they do not, some may.
// Afterwards the same clients continue.
func TestRedisPrimaryKilled(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *failover{"sentinel": pairFailover, "cluster": clusterFailover} {
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
			for adapter := range redisClients {
				if adapter != "rueidis" && (c.replicas == 0 || c.onDoubt == retrysafe.Reexecute) && !longSoak() {
					continue // one client is enough
				}
				t.Run(fmt.Sprint(name, ", ", adapter, ", ", c.name), func(t *testing.T) {
					t.Parallel()
					killPrimary(t, start(t), adapter, c.replicas, c.onDoubt)
				})
			}
		}
	}
}

// TestSoakRedisPrimaryKilled repeats it in the long run.
func TestSoakRedisPrimaryKilled(t *testing.T) {
	t.Parallel()
	if !longSoak() {
		return // the test above is the short form
	}
	for adapter := range redisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			for round := range 20 {
				t.Run(fmt.Sprint("sentinel ", round), func(t *testing.T) {
					killPrimary(t, pairFailover(t), adapter, redisstore.All, retrysafe.Refuse)
				})
				t.Run(fmt.Sprint("cluster ", round), func(t *testing.T) {
					killPrimary(t, clusterFailover(t), adapter, 1, retrysafe.Refuse)
				})
			}
		})
	}
}

func killPrimary(t *testing.T, f *failover, adapter string, replicas int, onDoubt retrysafe.OnDoubt) {
	t.Helper()
	var engines []*retrysafe.Engine
	var stores []*redisstore.Store
	for range 2 {
		s := redisOn(t, redisClients[adapter](t, f.url), &redisstore.Options{Replicas: replicas, ReplicaTime: time.Second})
		stores = append(stores, s)
		engines = append(engines, redisEngine(t, s, retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: onDoubt}))
	}
	l := newLoad(t, onDoubt, engines...)
	eventually(t, "the load runs", func() bool { return l.calls.Load() > 200 })
	f.sever()
	time.Sleep(100 * time.Millisecond)
	before := l.calls.Load()
	killed := time.Now()
	f.kill()
	f.heal()
	healed := time.Since(killed)
	eventually(t, "the same clients go on", func() bool {
		for g := range engines {
			if res, err := l.call(g, fmt.Sprint("after ", time.Now().UnixNano())); err != nil || !res.Stored {
				return false
			}
		}
		return true
	})
	back := time.Since(killed)
	time.Sleep(200 * time.Millisecond)
	l.end()
	inDoubt := len(doubts(t, stores[0]))
	keys := l.last.Load()/2 + 1
	t.Logf("%d calls of %d keys (%d before the kill), healed after %v, back after %v: %v; %d records in doubt, %d doubles",
		l.calls.Load(), keys, before, healed.Round(time.Millisecond), back.Round(time.Millisecond), l.ends, inDoubt, l.doubles())
	if replicas != 0 && onDoubt == retrysafe.Refuse {
		assert.Equal(t, l.doubles(), 0, "keys whose work ran twice")
	}
	for what := range l.ends {
		assert.True(t, !strings.HasPrefix(what, "other"), "a call ended with %s", what)
	}
	assert.True(t, inDoubt < int(keys/4) || !longSoak(), "few keys are in doubt: %d of %d", inDoubt, keys)
}
