// Package redisstore keeps records in Redis 7 or newer, in one packed string for each key. Every
// call is one script on that key, so that it is one step for the server and one round trip for the
// caller. No client is imported: adapters bring one.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Options change a store; nil is fine.
type Options struct {
	// Prefix stands before each key's text; default "rs:".
	Prefix string
	// Replicas is how many replicas must have a claim before the work may start, by WAIT; 0: none,
	// [All]: as many as a primary was seen to have by New. A claim that fewer have is given back,
	// and the caller is told that the store is unavailable. It needs a client with
	// [redisclient.Replicated].
	Replicas int
	// ReplicaTime is how long they are waited for; default 1 s.
	ReplicaTime time.Duration
	// Light keeps nothing of finished work but that it was done: no answer, no fingerprint, 40
	// bytes a record. Repeats are told [retrysafe.ErrAnswerNotKept], or what Policy.Duplicate says
	// of them (Reject, Succeed). It is for ids and messages by the million.
	Light bool
	// Quiet publishes nothing when an attempt ends: each message costs the server about a
	// microsecond. Those who wait then find out by asking, within a second.
	Quiet bool
	// AllowEviction takes a server that may drop records for want of memory: each drop lets a key
	// run again.
	AllowEviction bool
	// Logger gets warnings about what the server's configuration can lose; default slog.Default().
	Logger *slog.Logger
}

// All asks for every replica.
const All = -1

// Store keeps records in Redis. All methods may be called concurrently.
type Store struct {
	client redisclient.Client
	o      Options

	replicas atomic.Int64 // the most that a primary had

	apart     time.Duration // what the servers' clocks differed by at the start, at least
	toldApart atomic.Bool

	mu   sync.Mutex
	walk *walk

	indexed indexed
}

var (
	_ retrysafe.Store  = (*Store)(nil)
	_ retrysafe.Issuer = (*Store)(nil)
	_ retrysafe.Lister = (*Store)(nil)
)

// New returns a store. It looks at the configuration of every primary, where the client can: one
// that may evict records is refused, and what a crash or a failover can lose is warned of. So are
// clocks of the servers, replicas too, that differ by over a tenth of a lease.
func New(ctx context.Context, c redisclient.Client, o *Options) (*Store, error) {
	if c == nil {
		return nil, errors.New("redisstore: New needs a client; the adapters rueidisclient and goredisclient make one")
	}
	s := &Store{client: c}
	if o != nil {
		s.o = *o
	}
	if s.o.Prefix == "" {
		s.o.Prefix = "rs:"
	}
	if s.o.ReplicaTime == 0 {
		s.o.ReplicaTime = time.Second
	}
	if s.o.Logger == nil {
		s.o.Logger = slog.Default()
	}
	if s.o.Replicas < All || s.o.ReplicaTime < 0 {
		return nil, fmt.Errorf("redisstore: Replicas is %d and ReplicaTime %v; use a count, All or zero, and a positive time", s.o.Replicas, s.o.ReplicaTime)
	}
	if _, ok := c.(redisclient.Replicated); s.o.Replicas != 0 && !ok {
		return nil, errors.New("redisstore: Replicas needs a client that can WAIT on the connection of a script; this one cannot")
	}
	return s, s.inspect(ctx)
}

// name is the key that the record has on the server. The text of a key has no braces, so that no
// part of it names a slot.
func (s *Store) name(k *retrysafe.StoreKey) (string, error) {
	if err := k.Validate(); err != nil {
		return "", err
	}
	var space [256]byte
	text, err := k.AppendText(append(space[:0], s.o.Prefix...))
	return string(text), err
}
