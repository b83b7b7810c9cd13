// Package redisranges keeps the ranges of idgen.Segment in Redis 7 or newer: on a single server,
// Sentinel or Cluster. It imports no client; adapters provide one.
//
// If a counter goes back, ids repeat. Redis can lose what it has confirmed: in a failover to a
// replica that does not have it yet, and in a crash before it is on disk. So [New] accepts only a
// server with an append-only file. The server must also either have replicas confirm each range
// ([Options].Replicas), or have no replicas and write each command to disk (appendfsync always).
// New refuses a server whose settings it cannot see. With [Options].Unsafe it accepts any server;
// ids then repeat after a crash or a failover. If a tag is lost completely, Allocate returns
// idgen.ErrNoTag; the tag never starts again by itself.
package redisranges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Options configures a source. A nil *Options means the defaults.
type Options struct {
	// Prefix is put before each tag; default "rs:ids:".
	Prefix string
	// Replicas is how many replicas must have a range before Allocate returns it, by WAIT. 0 means
	// none. [All] means the largest number that New saw on a primary. If fewer replicas have the
	// range, Allocate fails and the range is never used. Replicas needs a client with
	// [redisclient.Replicated].
	Replicas int
	// ReplicaTime is how long to wait for the replicas; default 1 s.
	ReplicaTime time.Duration
	// Unsafe accepts a server that can lose what it has confirmed. Ids then repeat.
	Unsafe bool
	// Logger gets warnings about what the server can lose; default slog.Default().
	Logger *slog.Logger
}

// All means every replica.
const All = redisnode.All

// Ranges is a source of ranges in Redis. It is safe for concurrent use.
type Ranges struct {
	o         Options
	primaries *redisnode.Primaries
}

var _ idgen.Ranges = (*Ranges)(nil)

// New returns a source. It reads the configuration of every primary.
func New(ctx context.Context, c redisclient.Client, o *Options) (*Ranges, error) {
	r := new(Ranges)
	if o != nil {
		r.o = *o
	}
	if r.o.Prefix == "" {
		r.o.Prefix = "rs:ids:"
	}
	if r.o.Logger == nil {
		r.o.Logger = slog.Default()
	}
	var err error
	if r.primaries, err = redisnode.NewPrimaries("redisranges", c, r.o.Replicas, r.o.ReplicaTime, explainRefusal); err != nil {
		return nil, err
	}
	asked, err := r.primaries.Inspect(ctx, r.o.Unsafe, "a tag", func(_ context.Context, _ redisnode.Do, node *redisnode.Node) error {
		return r.inspectPrimary(node)
	})
	if err == nil && !asked {
		err = r.refuseUnlessUnsafe(errors.New("redisranges: this client cannot ask the server whether it keeps what it confirms"))
	}
	return r, err
}

// inspectPrimary checks one primary.
func (r *Ranges) inspectPrimary(node *redisnode.Node) error {
	switch {
	case node.Forgets(r.o.Replicas) != "":
		return r.refuseUnlessUnsafe(errors.New("redisranges: " + node.Forgets(r.o.Replicas)))
	case node.Fsync != "always":
		r.o.Logger.Warn("redisranges: the server writes to its disk now and then only: if its machine crashes and it comes back before a replica takes over, ids repeat; set appendfsync always")
	}
	return nil
}

// refuseUnlessUnsafe returns err, which says how ids can be lost. If the caller has set Unsafe, it
// logs a warning instead.
func (r *Ranges) refuseUnlessUnsafe(err error) error {
	if !r.o.Unsafe {
		return fmt.Errorf("%w; or set Unsafe if ids may repeat", err)
	}
	r.o.Logger.Warn(err.Error())
	return nil
}
