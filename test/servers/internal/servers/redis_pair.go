package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// RedisPair is a primary, a replica and a Sentinel that monitors them under the name retrysafe.
type RedisPair struct {
	Primary, replica *Redis
	sentinel         string
}

// StartPair starts a pair of the first kind; see RedisKind.StartPair.
func StartPair(t *testing.T, args ...string) *RedisPair {
	t.Helper()
	return RedisKinds[0].StartPair(t, args...)
}

// StartPairShifted starts a pair whose replica has a clock that is off.
func StartPairShifted(t *testing.T, shift time.Duration, args ...string) *RedisPair {
	t.Helper()
	return RedisKinds[0].startPair(t, shift, args...)
}

// StartPair starts a primary, its replica and a Sentinel.
func (k *RedisKind) StartPair(t *testing.T, args ...string) *RedisPair {
	t.Helper()
	return k.startPair(t, 0, args...)
}

func (k *RedisKind) startPair(t *testing.T, shift time.Duration, args ...string) *RedisPair {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	p := &RedisPair{Primary: k.Start(t, args...)}
	host, port, _ := strings.Cut(p.Primary.Addr, ":")
	p.replica = k.startShifted(t, shift, append([]string{"--replicaof", host + " " + port}, args...)...)
	waits.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(RedisDo(p.replica.Addr, "INFO", "replication"), "master_link_status:up")
	})
	dir := t.TempDir()
	p.sentinel = "127.0.0.1:" + FreePort(t)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor retrysafe %s %s 1\nsentinel down-after-milliseconds retrysafe 1000\nsentinel failover-timeout retrysafe 3000\n",
		strings.TrimPrefix(p.sentinel, "127.0.0.1:"), dir, host, port)
	assert.NoError(t, os.WriteFile(conf, []byte(text), 0o600), "file")
	cmd := k.Command(t, conf, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(t, cmd.Start(), "start Sentinel")
	t.Cleanup(sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }))
	waits.Eventually(t, "Sentinel sees the replica", func() bool {
		said := RedisDo(p.sentinel, "SENTINEL", "MASTER", "retrysafe")
		return strings.Contains(said, "num-slaves 1") || strings.Contains(said, "num-slaves:1")
	})
	return p
}

// StartCouple starts a couple of the first kind; see RedisKind.StartCouple.
func StartCouple(t *testing.T, args ...string) (primary, replica *Redis) {
	t.Helper()
	return RedisKinds[0].StartCouple(t, args...)
}

// StartCouple starts a primary and its replica, without a Sentinel.
func (k *RedisKind) StartCouple(t *testing.T, args ...string) (primary, replica *Redis) {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	primary = k.Start(t, args...)
	host, port, _ := strings.Cut(primary.Addr, ":")
	replica = k.Start(t, append([]string{"--replicaof", host + " " + port}, args...)...)
	waits.Eventually(t, "the replica follows", func() bool { return Linked(primary) })
	return primary, replica
}

// Linked reports whether the server has a replica that confirms writes.
func Linked(primary *Redis) bool {
	c := redis.NewClient(&redis.Options{Addr: primary.Addr, MaxRetries: -1, PoolSize: 1})
	defer func() { _ = c.Close() }()
	conn := c.Conn()
	defer func() { _ = conn.Close() }()
	ctx := context.Background()
	return conn.Set(ctx, "linked", "", 0).Err() == nil && conn.Wait(ctx, 1, 50*time.Millisecond).Val() == 1
}
