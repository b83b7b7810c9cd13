// Package redisstore stores records in Redis 7 or newer, as one packed string for each key. Every
// call is one script on that key: one atomic step and one round trip. The package imports no
// client; use an adapter.
package redisstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configure a store. Nil is valid.
type Options struct {
	// Prefix is put before each key's text; default "rs:".
	Prefix string
	// Replicas is how many replicas must have a claim, confirmed by WAIT, before the work may
	// start. 0: none. [All]: as many as New saw on a primary. A claim that fewer replicas have is
	// given back, and the caller gets an error that the store is unavailable. Replicas needs a
	// client with [redisclient.Replicated].
	Replicas int
	// ReplicaTime limits the wait for replicas; default 1 s.
	ReplicaTime time.Duration
	// Light stores only that work was finished: no answer and no fingerprint, 40 bytes a record.
	// Duplicates get retrysafe.ErrAnswerNotKept, or what Policy.Duplicate says (Reject, Succeed).
	// Use it for millions of ids or messages.
	Light bool
	// Quiet publishes no message when an attempt ends. Each message costs the server about a
	// microsecond. Without messages, waiters find out by polling, within a second.
	Quiet bool
	// AllowEviction accepts a server that may evict records when its memory is full. Each evicted
	// record lets its key run again.
	AllowEviction bool
	// Logger gets warnings about what the server's configuration can lose; default slog.Default().
	Logger *slog.Logger
}

// All requires every replica.
const All = redisnode.All

// Store keeps records in Redis. All methods are safe for concurrent use.
type Store struct {
	client    redisclient.Client
	o         Options
	primaries *redisnode.Primaries
	single    bool // one server has all keys
	joins     bool // calls may be joined to one run

	// lower bound of the difference between the servers' clocks at the start
	clockDifference time.Duration
	warnedOfClocks  atomic.Bool

	walks walks

	progressIndexes progressIndexes
	unfinished      unfinishedIndex
}

var (
	_ storeapi.Store  = (*Store)(nil)
	_ storeapi.Issuer = (*Store)(nil)
	_ storeapi.Lister = (*Store)(nil)
)

// New returns a store. If the client can, New checks the configuration of every primary. It refuses
// a primary that may evict records. It warns about what a crash or a failover can lose, and about
// clocks (also of replicas) that differ by more than a tenth of a lease.
func New(ctx context.Context, c redisclient.Client, o *Options) (*Store, error) {
	s := &Store{client: c}
	if o != nil {
		s.o = *o
	}
	if s.o.Prefix == "" {
		s.o.Prefix = "rs:"
	}
	if s.o.Logger == nil {
		s.o.Logger = slog.Default()
	}
	var err error
	if s.primaries, err = redisnode.NewPrimaries("redisstore", c, s.o.Replicas, s.o.ReplicaTime, explainRefusal); err != nil {
		return nil, err
	}
	if err = s.inspectPrimaries(ctx); err != nil {
		return nil, err
	}
	if err = s.openIndex(ctx); err != nil {
		return nil, err
	}
	s.single = s.oneServer(ctx)
	s.joins = s.single && s.o.Replicas == 0
	return s, nil
}

// recordName returns the key of a record on the server. The text of a key contains no braces, so no
// part of it is a hash tag.
func (s *Store) recordName(k *storeapi.StoreKey) (string, error) {
	if err := k.Validate(); err != nil {
		return "", err
	}
	var space [256]byte
	text, err := k.AppendText(append(space[:0], s.o.Prefix...))
	return string(text), err
}
