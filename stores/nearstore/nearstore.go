// Package nearstore caches finished work near the caller, so that keys with many duplicates cost
// the store nothing.
//
// Completed work is final: no call changes it during its retention, except that
// [storeapi.Forgetter] removes its answer. So a copy is as correct as the record. For failed work,
// which an operator may reopen, and for unfinished records it always asks the store. A copy cannot
// show that the record itself was removed, by hand or in a data loss, or that another process
// removed its answer. So a copy is used for at most [Options].Age.
package nearstore

import (
	"bytes"
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configure a store. Nil is valid.
type Options struct {
	// Bytes is how much memory the copies may use; default 16 MiB. Usually half of it is in use.
	Bytes int64
	// Age is how long a copy is used; default 10 s.
	Age time.Duration
	// Now measures elapsed time; default time.Now.
	Now func() time.Time
}

// Store is a [storeapi.Store] in front of another one, with every optional interface. It is safe
// for concurrent use.
type Store struct {
	storeapi.Store

	o Options

	seed maphash.Seed

	mu sync.Mutex
	// Hashes of keys that had one duplicate. A copy is made at the next one. Most keys have one
	// duplicate, if any.
	seenOnce [4096]uint64
	// New copies are put into young. When young has half of the memory, it becomes old, and the
	// copies in old are dropped.
	young, old map[uint64]*copied // by the hash of the key
	size       int64              // size of young
}

// copied is a finished record as of a time.
type copied struct {
	record storeapi.Record
	at     time.Time
}

// New returns a store that copies finished records of inner after their second duplicate.
func New(inner storeapi.Store, o *Options) *Store {
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
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	return s
}

// Acquire implements [storeapi.Store]. It asks the inner store unless a copy certainly has the
// answer.
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Acquired{}, err
	}
	hash := maphash.Comparable(s.seed, req.Key)
	if rec, ok := s.findCopy(hash, &req); ok {
		return storeapi.Acquired{Status: storeapi.StatusFinished, Record: rec}, nil
	}
	got, err := s.Store.Acquire(ctx, req)
	if err == nil && got.Status == storeapi.StatusFinished && got.Record.State == storeapi.StateCompleted && s.noteDuplicate(hash) {
		s.storeCopy(hash, &got.Record)
	}
	return got, err
}

// findCopy returns the answer to a plain duplicate: the same payload and credential, and no need
// for an issued key.
func (s *Store) findCopy(hash uint64, req *storeapi.AcquireRequest) (storeapi.Record, bool) {
	if req.IfFence != 0 || req.MustBeIssued {
		return storeapi.Record{}, false
	}
	s.mu.Lock()
	c, ok := s.young[hash]
	if !ok {
		c, ok = s.old[hash]
	}
	s.mu.Unlock()
	if !ok || c.record.Key != req.Key || !bytes.Equal(c.record.Fingerprint, req.Fingerprint) || !bytes.Equal(c.record.Binding, req.Binding) {
		return storeapi.Record{}, false
	}
	passed := s.o.Now().Sub(c.at)
	rec := c.record
	rec.Now = rec.Now.Add(passed)
	late := !req.NotAfter.IsZero() && rec.Now.After(req.NotAfter)
	over := !rec.Expires.IsZero() && !rec.Now.Add(clockError).Before(rec.Expires)
	if passed < 0 || passed >= s.o.Age || late || over {
		return storeapi.Record{}, false
	}
	rec.Answer.Body = bytes.Clone(rec.Answer.Body)
	return rec, true
}

// noteDuplicate reports whether the key had another duplicate lately, and remembers this one.
func (s *Store) noteDuplicate(hash uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.seenOnce[hash%uint64(len(s.seenOnce))]
	if *at == hash {
		return true
	}
	*at = hash
	return false
}

// clockError is how far this clock and the store's may have drifted apart while a copy was kept.
const clockError = 100 * time.Millisecond

// storeCopy stores a copy of a record.
func (s *Store) storeCopy(hash uint64, rec *storeapi.Record) {
	size := int64(len(rec.Answer.Body)+len(rec.Fingerprint)+len(rec.Binding)+len(rec.Key.Tenant)+len(rec.Key.Operation)+len(rec.Key.ID)) + copyOverhead
	if size > s.o.Bytes/8 {
		return // it would displace all others
	}
	c := &copied{record: *rec, at: s.o.Now()}
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

// dropCopy removes the copy of a key. Its memory is counted until young becomes old.
func (s *Store) dropCopy(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.young, hash)
	delete(s.old, hash)
}

// copyOverhead is the memory of a copy in addition to its bytes.
const copyOverhead = 600
