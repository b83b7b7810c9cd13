package servers

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// Failover is a set of servers whose primary can be killed.
type Failover struct {
	URL string
	// sever disconnects the replica for the last moment of the primary, so that only the primary
	// has its last writes.
	Sever func()
	Kill  func()
	// heal brings the killed server back, as a replica, after another one has become the primary.
	Heal func()
}

// FailoverOfAPair returns a failover with the given server arguments.
func (k *RedisKind) FailoverOfAPair(t *testing.T, args ...string) *Failover {
	t.Helper()
	p := k.StartPair(t, args...)
	waits.Eventually(t, "the replica confirms writes", func() bool { return Linked(p.Primary) })
	return &Failover{
		URL: p.URL(),
		Sever: func() {
			// Sentinel promotes no replica that has been cut off for more than ten times this
			// before the primary died.
			RedisDo(p.sentinel, "SENTINEL", "SET", "retrysafe", "down-after-milliseconds", "5000")
			Sever(p.Primary, p.replica)
		},
		Kill: p.Primary.Murder,
		Heal: func() {
			waits.Eventually(t, "the replica is the primary", func() bool {
				return strings.Contains(RedisDo(p.replica.Addr, "INFO", "replication"), "role:master")
			})
			Mend(p.replica)
			host, port, _ := strings.Cut(p.replica.Addr, ":")
			p.Primary.Start(t, t.TempDir(), append([]string{"--repl-diskless-sync-delay", "0", "--replicaof", host + " " + port}, args...)...)
			waits.Eventually(t, "the old primary follows", func() bool { return Linked(p.replica) })
		},
	}
}

// ArgOf returns the argument after name, or "" if there is none.
func ArgOf(args []string, name string) string {
	for i, a := range args {
		if a == name {
			return args[i+1]
		}
	}
	return ""
}

// Sever is cutOff for use outside the test's goroutine.
func Sever(primary, replica *Redis) {
	RedisDo(replica.Addr, "CONFIG", "SET", "masterauth", "no such password")
	RedisDo(primary.Addr, "CLIENT", "KILL", "TYPE", "replica")
}

// Mend lets a replica that Sever cut off follow again.
func Mend(s *Redis) { RedisDo(s.Addr, "CONFIG", "SET", "masterauth", "") }
