package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// redisDo runs one command on a server. It returns an empty answer if the server refuses.
func redisDo(addr string, words ...any) string {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute})
	defer c.Close()
	v, err := c.Do(context.Background(), words...).Result()
	if err != nil {
		return ""
	}
	return fmt.Sprint(v)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		assert.True(t, time.Now().Before(end), "within %v: %s", patience, what)
	}
}

// redisCluster is three primaries and a replica of each.
type redisCluster struct{ nodes []*redisServer }

// steady keeps the nodes from failing over because a busy machine is slow. A test that wants a
// failover does not call it.
func (c *redisCluster) steady() *redisCluster {
	for _, n := range c.nodes {
		redisDo(n.addr, "CONFIG", "SET", "cluster-node-timeout", "180000")
	}
	return c
}

func (c *redisCluster) url() string {
	var hosts []string
	for _, n := range c.nodes {
		hosts = append(hosts, n.addr)
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

func startCluster(t testing.TB, args ...string) *redisCluster {
	t.Helper()
	return startClusterShifted(t, nil, args...)
}

// startClusterShifted starts a cluster in which some nodes have clocks that are off; 0 to 2 are the
// primaries.
func startClusterShifted(t testing.TB, shifts map[int]time.Duration, args ...string) *redisCluster {
	t.Helper()
	c := new(redisCluster)
	for i := range 6 {
		c.nodes = append(c.nodes, startRedisShifted(t, shifts[i], append([]string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", freePort(t),
			"--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}, args...)...))
	}
	for i, slots := range [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}} {
		redisDo(c.nodes[i].addr, "CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1])
		redisDo(c.nodes[i].addr, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range c.nodes[1:] {
		host, port, _ := strings.Cut(n.addr, ":")
		redisDo(c.nodes[0].addr, "CLUSTER", "MEET", host, port, busPort(n))
	}
	for i := range 3 {
		id := redisDo(c.nodes[i].addr, "CLUSTER", "MYID")
		eventually(t, "a replica finds its primary", func() bool { return redisDo(c.nodes[3+i].addr, "CLUSTER", "REPLICATE", id) == "OK" })
	}
	eventually(t, "the cluster stands", func() bool {
		for i, n := range c.nodes {
			if !strings.Contains(redisDo(n.addr, "CLUSTER", "INFO"), "cluster_state:ok") ||
				strings.Count(redisDo(n.addr, "CLUSTER", "NODES"), "slave ") != 3 ||
				i >= 3 && !strings.Contains(redisDo(n.addr, "INFO", "replication"), "master_link_status:up") {
				return false
			}
		}
		return true
	})
	return c
}

func busPort(s *redisServer) string {
	for i, a := range s.cmd.Args {
		if a == "--cluster-port" {
			return s.cmd.Args[i+1]
		}
	}
	return ""
}

// redisPair is a primary, a replica and a Sentinel that monitors them under the name retrysafe.
type redisPair struct {
	primary, replica *redisServer
	sentinel         string
}

func (p *redisPair) url() string { return "redis+sentinel://" + p.sentinel + "/retrysafe" }

// steady keeps Sentinel from a failover because a busy machine is slow. A test that wants one does
// not call it.
func (p *redisPair) steady() *redisPair {
	redisDo(p.sentinel, "SENTINEL", "SET", "retrysafe", "down-after-milliseconds", "180000")
	return p
}

func startPair(t *testing.T, args ...string) *redisPair {
	t.Helper()
	return startPairShifted(t, 0, args...)
}

// startPairShifted starts a pair whose replica has a clock that is off.
func startPairShifted(t *testing.T, shift time.Duration, args ...string) *redisPair {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	p := &redisPair{primary: startRedis(t, args...)}
	host, port, _ := strings.Cut(p.primary.addr, ":")
	p.replica = startRedisShifted(t, shift, append([]string{"--replicaof", host + " " + port}, args...)...)
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(redisDo(p.replica.addr, "INFO", "replication"), "master_link_status:up")
	})
	dir := t.TempDir()
	p.sentinel = "127.0.0.1:" + freePort(t)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor retrysafe %s %s 1\nsentinel down-after-milliseconds retrysafe 1000\nsentinel failover-timeout retrysafe 3000\n",
		strings.TrimPrefix(p.sentinel, "127.0.0.1:"), dir, host, port)
	assert.NoError(t, os.WriteFile(conf, []byte(text), 0o600), "file")
	path, err := exec.LookPath("redis-sentinel")
	assert.NoError(t, err, "redis-sentinel is not installed: apt-get install -y redis-sentinel")
	cmd := exec.Command(path, conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(t, cmd.Start(), "start redis-sentinel")
	t.Cleanup(sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }))
	eventually(t, "Sentinel sees the replica", func() bool {
		said := redisDo(p.sentinel, "SENTINEL", "MASTER", "retrysafe")
		return strings.Contains(said, "num-slaves 1") || strings.Contains(said, "num-slaves:1")
	})
	return p
}

// startCouple starts a primary and its replica, without a Sentinel.
func startCouple(t *testing.T, args ...string) (primary, replica *redisServer) {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	primary = startRedis(t, args...)
	host, port, _ := strings.Cut(primary.addr, ":")
	replica = startRedis(t, append([]string{"--replicaof", host + " " + port}, args...)...)
	eventually(t, "the replica follows", func() bool { return linked(primary) })
	return primary, replica
}

// linked reports whether the server has a replica that confirms writes.
func linked(primary *redisServer) bool {
	c := redis.NewClient(&redis.Options{Addr: primary.addr, MaxRetries: -1, PoolSize: 1})
	defer c.Close()
	conn := c.Conn()
	defer conn.Close()
	ctx := context.Background()
	return conn.Set(ctx, "linked", "", 0).Err() == nil && conn.Wait(ctx, 1, 50*time.Millisecond).Val() == 1
}
