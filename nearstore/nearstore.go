// Package nearstore keeps copies of finished work near the caller, so that a key that is repeated
// often costs the store nothing.
//
// Completed work is final: no call changes it before its retention is over, so a copy of it is as
// right as the record. Failed work, which people may reopen, and everything that is not finished is
// always asked for. What a copy cannot know is that somebody has removed the record itself, by hand
// or by losing it: a copy is used for [Options].Age at most.
package nearstore

import (
	"bytes"
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Options change a store; nil is fine.
type Options struct {
	// Bytes is how much memory copies may take; default 16 MiB. Half of it is in use as a rule.
	Bytes int64
	// Age is how long a copy is used; default 10 s.
	Age time.Duration
	// Clock tells the time that passes; default time.Now.
	Clock func() time.Time
}

// Store is a [retrysafe.Store] before another one, with every optional interface. It is safe for
// concurrent use.
type Store struct {
	retrysafe.Store

	o Options

	seed maphash.Seed

	mu sync.Mutex
	// Keys that were repeated once, by their hashes: a copy is made when one comes again. Most are
	// repeated once, if at all.
	once [4096]uint64
	// Copies are put into young. When that has half of the memory it becomes old, and the old ones
	// are dropped.
	young, old map[uint64]*copied // by the hash of their keys
	size       int64              // of young
}

// copied is a finished record as it was at a time.
type copied struct {
	record retrysafe.Record
	at     time.Time
}

// New returns a store that keeps copies of what it finds finished in inner, once it was asked for
// twice.
func New(inner retrysafe.Store, o *Options) *Store {
	s := &Store{Store: inner, seed: maphash.MakeSeed(), young: map[uint64]*copied{}}
	if o != nil {
		s.o = *o
	}
	if s.o.Bytes <= 0 {
		s.o.Bytes = 16 << 20
	}
	if s.o.Age <= 0 {
		s.o.Age = 10 * time.Second
	}
	if s.o.Clock == nil {
		s.o.Clock = time.Now
	}
	return s
}

// Acquire implements [retrysafe.Store]. Whatever a copy does not answer for certain is asked of the
// inner store.
func (s *Store) Acquire(ctx context.Context, req retrysafe.AcquireRequest) (retrysafe.Acquired, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Acquired{}, err
	}
	hash := maphash.Comparable(s.seed, req.Key)
	if rec, ok := s.find(hash, &req); ok {
		return retrysafe.Acquired{Status: retrysafe.Finished, Record: rec}, nil
	}
	got, err := s.Store.Acquire(ctx, req)
	if err == nil && got.Status == retrysafe.Finished && got.Record.State == retrysafe.StateCompleted && s.again(hash) {
		s.keep(hash, &got.Record)
	}
	return got, err
}

// find returns the answer to a plain repeat: by the same payload and credential, of a key that need
// not be issued.
func (s *Store) find(hash uint64, req *retrysafe.AcquireRequest) (retrysafe.Record, bool) {
	if req.IfFence != 0 || req.MustBeIssued {
		return retrysafe.Record{}, false
	}
	s.mu.Lock()
	c, ok := s.young[hash]
	if !ok {
		c, ok = s.old[hash]
	}
	s.mu.Unlock()
	if !ok || c.record.Key != req.Key || !bytes.Equal(c.record.Fingerprint, req.Fingerprint) || !bytes.Equal(c.record.Binding, req.Binding) {
		return retrysafe.Record{}, false
	}
	passed := s.o.Clock().Sub(c.at)
	rec := c.record
	rec.Now = rec.Now.Add(passed)
	limit := req.Limit()
	late := !limit.IsZero() && rec.Now.After(limit)
	over := !rec.Expires.IsZero() && !rec.Now.Add(clockError).Before(rec.Expires)
	if passed < 0 || passed >= s.o.Age || late || over {
		return retrysafe.Record{}, false
	}
	rec.Answer.Body = bytes.Clone(rec.Answer.Body)
	return rec, true
}

// again tells whether a key was repeated lately; now it was.
func (s *Store) again(hash uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.once[hash%uint64(len(s.once))]
	if *at == hash {
		return true
	}
	*at = hash
	return false
}

// clockError is how much the clocks here and at the store may have moved apart while a copy was
// kept.
const clockError = 100 * time.Millisecond

// keep takes a copy of a record.
func (s *Store) keep(hash uint64, rec *retrysafe.Record) {
	size := int64(len(rec.Answer.Body)+len(rec.Fingerprint)+len(rec.Binding)+len(rec.Key.Tenant)+len(rec.Key.Operation)+len(rec.Key.ID)) + overhead
	if size > s.o.Bytes/8 {
		return // it would push out all others
	}
	c := &copied{record: *rec, at: s.o.Clock()}
	c.record.Answer.Body = bytes.Clone(rec.Answer.Body)
	c.record.Fingerprint, c.record.Binding = bytes.Clone(rec.Fingerprint), bytes.Clone(rec.Binding)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.young[hash]; before == nil {
		s.size += size
	}
	s.young[hash] = c
	if s.size > s.o.Bytes/2 {
		s.old, s.young, s.size = s.young, map[uint64]*copied{}, 0
	}
}

// overhead is what a copy takes beside its bytes.
const overhead = 600
