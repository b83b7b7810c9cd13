package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// RedisCluster is three primaries and a replica of each.
type RedisCluster struct{ Nodes []*Redis }

// Steady keeps the nodes from failing over because a busy machine is slow. A test that wants a
// failover does not call it.
func (c *RedisCluster) Steady() *RedisCluster {
	for _, n := range c.Nodes {
		RedisDo(n.Addr, "CONFIG", "SET", "cluster-node-timeout", "180000")
	}
	return c
}

// URL returns the address of the cluster, with every node.
func (c *RedisCluster) URL() string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Addr)
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// StartCluster starts a cluster of the first kind; see RedisKind.StartCluster.
func StartCluster(tb testing.TB, args ...string) *RedisCluster {
	tb.Helper()
	return RedisKinds[0].StartCluster(tb, args...)
}

// StartClusterShifted starts a cluster in which some nodes have clocks that are off; 0 to 2 are the
// primaries.
func StartClusterShifted(tb testing.TB, shifts map[int]time.Duration, args ...string) *RedisCluster {
	tb.Helper()
	return RedisKinds[0].startCluster(tb, shifts, args...)
}

// StartCluster starts a cluster of three primaries, each with a replica.
func (k *RedisKind) StartCluster(tb testing.TB, args ...string) *RedisCluster {
	tb.Helper()
	return k.startCluster(tb, nil, args...)
}

func (k *RedisKind) startCluster(tb testing.TB, shifts map[int]time.Duration, args ...string) *RedisCluster {
	tb.Helper()
	c := new(RedisCluster)
	for i := range 6 {
		c.Nodes = append(c.Nodes, k.startShifted(tb, shifts[i], append([]string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", FreePort(tb),
			"--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}, args...)...))
	}
	for i, slots := range [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}} {
		RedisDo(c.Nodes[i].Addr, "CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1])
		RedisDo(c.Nodes[i].Addr, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	meet := func() {
		for _, n := range c.Nodes[1:] {
			host, port, _ := strings.Cut(n.Addr, ":")
			RedisDo(c.Nodes[0].Addr, "CLUSTER", "MEET", host, port, busPort(n))
		}
	}
	meet()
	for i := range 3 {
		id := RedisDo(c.Nodes[i].Addr, "CLUSTER", "MYID")
		met := time.Now()
		waits.Eventually(tb, "a replica finds its primary", func() bool {
			if time.Since(met) > 10*time.Second { // a node forgets another that took long to answer
				meet()
				met = time.Now()
			}
			return RedisDo(c.Nodes[3+i].Addr, "CLUSTER", "REPLICATE", id) == "OK"
		})
	}
	waits.Eventually(tb, "the cluster stands", func() bool {
		for i, n := range c.Nodes {
			if !strings.Contains(RedisDo(n.Addr, "CLUSTER", "INFO"), "cluster_state:ok") ||
				strings.Count(RedisDo(n.Addr, "CLUSTER", "NODES"), "slave ") != 3 ||
				i >= 3 && !strings.Contains(RedisDo(n.Addr, "INFO", "replication"), "master_link_status:up") {
				return false
			}
		}
		return true
	})
	return c
}

func busPort(s *Redis) string {
	for i, a := range s.Cmd.Args {
		if a == "--cluster-port" {
			return s.Cmd.Args[i+1]
		}
	}
	return ""
}

// URL returns the address of the pair, by its Sentinel.
func (p *RedisPair) URL() string { return "redis+sentinel://" + p.sentinel + "/retrysafe" }

// Steady keeps Sentinel from a failover because a busy machine is slow. A test that wants one does
// not call it.
func (p *RedisPair) Steady() *RedisPair {
	RedisDo(p.sentinel, "SENTINEL", "SET", "retrysafe", "down-after-milliseconds", "180000")
	return p
}
