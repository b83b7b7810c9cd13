// Package redislock keeps locks in Redis 7 or newer: on a single server, Sentinel or Cluster
// ([New]), or on a majority of independent servers ([NewQuorum]). It imports no client; adapters
// provide one.
//
// Leases use the server's clock. A message wakes waiters. A lock takes 33 bytes, which are kept for
// five minutes after its release, or for a day after its lease if it was not released
// ([Options].Remember). The largest fence that was released is kept for each slot.
//
// A lock is lost if its server dies before a replica has it. A second holder may then get the lock,
// and the first learns of it at its next heartbeat. With [Options].Replicas set to All, that takes
// more than one failure: each lock and each heartbeat counts only after every replica has it. The
// fence tells the two holders apart if the clocks of the servers agree, since it is at least the
// clock.
package redislock

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Options configures a backend. A nil *Options means the defaults.
type Options struct {
	// Prefix is put before each name; default "rs:lock:". If it has braces, they are a hash tag,
	// which puts all locks into one slot.
	Prefix string
	// Replicas is how many replicas must have a lock before it counts, by WAIT. 0 means none. [All]
	// means the largest number that New saw on a primary. If fewer replicas have it, it is released
	// and Lock fails. Replicas needs a client with [redisclient.Replicated].
	Replicas int
	// ReplicaTime is how long to wait for the replicas; default 1 s.
	ReplicaTime time.Duration
	// ServerTime is how long a [Quorum] waits in each call until a majority of its servers agrees;
	// default 500 ms. After it the call fails, although servers may still carry it out. A longer
	// time suits servers with slow disks. A call may then take that long while a server hangs. A
	// backend that [New] returns does not use it.
	ServerTime time.Duration
	// Remember is how long the fence of a lock whose holder died is kept after its lease; default
	// 24 h. Later fences begin with the server's clock, so they are still greater unless the clock
	// has gone back. The fences of released locks are kept in one key for each slot, for ever, and
	// their names for five minutes. A lock that is passed on counts as released when its last
	// holder releases it.
	Remember time.Duration
	// AllowEviction accepts a server that may evict locks when memory is full. Each eviction lets a
	// second holder in.
	AllowEviction bool
	// Logger gets warnings about what the server's configuration can lose; default slog.Default().
	Logger *slog.Logger
}

// All means every replica.
const All = redisnode.All

// Backend keeps locks in Redis. It is safe for concurrent use.
type Backend struct {
	client    redisclient.Client
	o         Options
	primaries *redisnode.Primaries
}

var (
	_ lock.Backend = (*Backend)(nil)
	_ lock.Passer  = (*Backend)(nil)
)

// New returns a backend. If the client allows it, New reads the configuration of every primary. It
// refuses a server that may evict locks, and warns of what a crash or a failover can lose.
func New(ctx context.Context, c redisclient.Client, o *Options) (*Backend, error) {
	b, err := newBackend(c, o)
	if err != nil {
		return nil, err
	}
	return b, b.inspectPrimaries(ctx, func(node *redisnode.Node) error {
		if node.Replicas > 0 && b.o.Replicas == 0 {
			b.o.Logger.Warn("redislock: locks are not confirmed by replicas: a failover can lose one that is held, and let a second holder in; set Replicas")
		}
		if node.AOF == "0" {
			b.o.Logger.Warn("redislock: the server keeps no append-only file: if it crashes and starts again, locks that are held are lost; set appendonly yes")
		}
		return nil
	})
}

func newBackend(c redisclient.Client, o *Options) (*Backend, error) {
	b := &Backend{client: c}
	if o != nil {
		b.o = *o
	}
	if b.o.Prefix == "" {
		b.o.Prefix = "rs:lock:"
	}
	if _, tagged := hashTag(b.o.Prefix); strings.Contains(b.o.Prefix, "{") && !tagged {
		return nil, fmt.Errorf("redislock: Prefix is %q, with a brace and no hash tag; write a tag such as {shop}, or leave the brace out", b.o.Prefix)
	}
	if b.o.ReplicaTime == 0 {
		b.o.ReplicaTime = time.Second
	}
	if b.o.ServerTime == 0 {
		b.o.ServerTime = 500 * time.Millisecond
	}
	if b.o.Remember == 0 {
		b.o.Remember = 24 * time.Hour
	}
	if b.o.Logger == nil {
		b.o.Logger = slog.Default()
	}
	if min(b.o.ReplicaTime, b.o.ServerTime) < time.Millisecond || b.o.Remember < time.Minute {
		return nil, fmt.Errorf("redislock: ReplicaTime is %v, ServerTime %v and Remember %v; use a millisecond at least, and a minute at least for Remember", b.o.ReplicaTime, b.o.ServerTime, b.o.Remember)
	}
	var err error
	b.primaries, err = redisnode.NewPrimaries("redislock", c, b.o.Replicas, b.o.ReplicaTime, explainRefusal)
	return b, err
}

// inspectPrimaries checks every primary before any lock is stored there.
func (b *Backend) inspectPrimaries(ctx context.Context, look func(*redisnode.Node) error) error {
	asked, err := b.primaries.Inspect(ctx, b.o.AllowEviction, "a lock that is held, and let a second holder in", func(_ context.Context, _ redisnode.Do, node *redisnode.Node) error {
		if node.Policy == "" {
			b.o.Logger.Warn("redislock: the server tells neither its configuration (CONFIG GET) nor its state (INFO); make sure that maxmemory-policy is noeviction and that it writes to disk")
		}
		return look(node)
	})
	if !asked && err == nil {
		b.o.Logger.Warn("redislock: this client cannot ask the server for its configuration; make sure that maxmemory-policy is noeviction and that it writes to disk")
	}
	return err
}

// advice adds to the advice for any script what only locks know.
var advice = map[string]string{
	"NOPERM": "the user may not run this; it needs EVALSHA, EVAL, GET, SET, TIME, PUBLISH, SUBSCRIBE, ROLE, and WAIT for Replicas, and the keys and channels of the prefix",
}

// explainRefusal explains an error of the server. The result still is a [redisclient.Error].
func explainRefusal(err error) error { return redisnode.Refusal("redislock", advice, err) }

// toFence converts the number that a script returns.
func toFence(n int64) retrysafe.Fence { return retrysafe.Fence(n) } //nolint:gosec // scripts make none below zero
