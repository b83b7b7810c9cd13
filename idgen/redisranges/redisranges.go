// Package redisranges keeps the ranges of idgen.Segment in Redis 7 or newer: a single server,
// Sentinel or Cluster. It imports no client: adapters bring one.
//
// A counter that goes back gives ids twice, and Redis can lose what it has confirmed: in a failover
// to a replica that does not have it yet, and in a crash before it is on the disk. So [New] takes a
// server that keeps an append-only file, and that either has each range confirmed by replicas
// ([Options].Replicas) or has none and writes each command to the disk (appendfsync always); it
// refuses what it cannot see. [Options].Unsafe takes any: ids repeat after a crash or a failover
// then. A tag that was lost altogether is an error (idgen.ErrNoTag) and never begins anew by
// itself.
package redisranges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Options change a source; nil is fine.
type Options struct {
	// Prefix stands before each tag; default "rs:ids:".
	Prefix string
	// Replicas is how many replicas must have a range before it is given, by WAIT; 0: none, [All]:
	// as many as a primary was seen to have by New. A range that fewer have is nobody's, and Take
	// fails. It needs a client with [redisclient.Replicated].
	Replicas int
	// ReplicaTime is how long they are waited for; default 1 s.
	ReplicaTime time.Duration
	// Unsafe takes a server that can lose what it has confirmed: ids repeat then.
	Unsafe bool
	// Logger gets warnings about what the server can lose; default slog.Default().
	Logger *slog.Logger
}

// All asks for every replica.
const All = -1

// Ranges are a source of ranges. It is safe for concurrent use.
type Ranges struct {
	client   redisclient.Client
	o        Options
	replicas atomic.Int64 // the most that a primary had
}

var _ idgen.Ranges = (*Ranges)(nil)

// New returns a source. It looks at the configuration of every primary.
func New(ctx context.Context, c redisclient.Client, o *Options) (*Ranges, error) {
	if c == nil {
		return nil, errors.New("redisranges: New needs a client; the adapters rueidisclient and goredisclient make one")
	}
	r := &Ranges{client: c}
	if o != nil {
		r.o = *o
	}
	if r.o.Prefix == "" {
		r.o.Prefix = "rs:ids:"
	}
	if r.o.ReplicaTime == 0 {
		r.o.ReplicaTime = time.Second
	}
	if r.o.Logger == nil {
		r.o.Logger = slog.Default()
	}
	if r.o.Replicas < All || r.o.ReplicaTime < 0 {
		return nil, fmt.Errorf("redisranges: Replicas is %d and ReplicaTime %v; use a count, All or zero, and a positive time", r.o.Replicas, r.o.ReplicaTime)
	}
	if _, ok := c.(redisclient.Replicated); r.o.Replicas != 0 && !ok {
		return nil, errors.New("redisranges: Replicas needs a client that can WAIT on the connection of a script; this one cannot")
	}
	nodes, ok := c.(redisclient.Nodes)
	if !ok {
		if r.o.Replicas == All {
			return nil, errors.New("redisranges: Replicas All needs a client that can ask the primaries how many they have; give their number")
		}
		return r, r.unless(errors.New("redisranges: this client cannot ask the server whether it keeps what it confirms"))
	}
	return r, nodes.EachPrimary(ctx, func(ctx context.Context, do redisnode.Do) error {
		node, err := redisnode.Look(ctx, do)
		if err != nil {
			return refusal(err)
		}
		r.replicas.Store(max(r.replicas.Load(), int64(node.Replicas)))
		return r.inspect(&node)
	})
}

// inspect looks at one primary.
func (r *Ranges) inspect(node *redisnode.Node) error {
	if err := node.Check(r.o.Unsafe, "a tag"); err != nil {
		return fmt.Errorf("redisranges: %w", err)
	}
	switch {
	case r.o.Replicas == All && node.Replicas <= 0:
		return errors.New("redisranges: Replicas All, and a primary has no replica, or does not tell (INFO); give their number")
	case node.Forgets(r.o.Replicas) != "":
		return r.unless(errors.New("redisranges: " + node.Forgets(r.o.Replicas)))
	case node.Fsync != "always":
		r.o.Logger.Warn("redisranges: the server writes to its disk now and then only: if its machine crashes and it comes back before a replica takes over, ids repeat; set appendfsync always")
	}
	return nil
}

// unless makes an error of what can lose ids, or a warning if the caller has taken that upon
// himself.
func (r *Ranges) unless(err error) error {
	if !r.o.Unsafe {
		return fmt.Errorf("%w; or set Unsafe if ids may repeat", err)
	}
	r.o.Logger.Warn(err.Error())
	return nil
}
