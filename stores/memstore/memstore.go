// Package memstore is the reference store. It keeps records in memory, for tests, examples and
// single processes that may lose them when they end.
package memstore

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configure a store. Nil is valid.
type Options struct {
	// Now is the store's clock; default the process's monotonic time, which does not change when
	// the machine's clock is set. It may differ from the callers' clocks.
	Now func() time.Time
}

// Store keeps records in memory. All methods are safe for concurrent use and never wait.
type Store struct {
	clock func() time.Time

	mu    sync.Mutex // guards the fields below
	rows  map[storeapi.StoreKey]*protocol.Row
	floor storeapi.Fence // the largest fence of a removed record
	usage map[tenant]protocol.Usage
}

// steadyClock returns a clock that starts now and follows the monotonic time: leases must not end
// early or late because the machine's clock is set.
func steadyClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// New returns an empty store.
func New(o *Options) *Store {
	s := &Store{clock: steadyClock(), rows: make(map[storeapi.StoreKey]*protocol.Row), usage: make(map[tenant]protocol.Usage)}
	if o != nil && o.Now != nil {
		s.clock = o.Now
	}
	return s
}

var (
	_ storeapi.Store     = (*Store)(nil)
	_ storeapi.Issuer    = (*Store)(nil)
	_ storeapi.Lister    = (*Store)(nil)
	_ storeapi.Sweeper   = (*Store)(nil)
	_ storeapi.Keeper    = (*Store)(nil)
	_ storeapi.Forgetter = (*Store)(nil)
)

var errForgets = errors.New("memstore: what is kept is gone with the process, and others do not see it")

// Keeps implements [storeapi.Keeper]. It always returns an error: memory is lost with the process.
func (s *Store) Keeps(context.Context) error { return errForgets }

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (got storeapi.Acquired, err error) {
	if err := validateCall(ctx, req.Key); err != nil {
		return got, err
	}
	req.Finish = protocol.OwnFinish(req.Finish)
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(req.Key)
	next, status, write, err := protocol.Acquire(*row, now, s.floor, &req)
	if err != nil {
		return got, err
	}
	if write {
		next.Fingerprint, next.Binding = bytes.Clone(next.Fingerprint), bytes.Clone(next.Binding)
		row = s.storeRow(req.Key, row, next)
	}
	got = storeapi.Acquired{Status: status, Record: row.Record(req.Key, now)}
	rec := &got.Record
	if bytes.Equal(rec.Fingerprint, req.Fingerprint) {
		rec.Fingerprint = req.Fingerprint // the caller has just passed it, so it needs no copy
	} else {
		rec.Fingerprint = bytes.Clone(rec.Fingerprint)
	}
	rec.Binding, rec.Answer.Body = bytes.Clone(rec.Binding), bytes.Clone(rec.Answer.Body)
	return got, nil
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	if err := validateCall(ctx, req.Key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(req.Key)
	next, err := protocol.Extend(*row, now, &req)
	if err == nil {
		if req.Progress != nil {
			next.Answer.Body = bytes.Clone(next.Answer.Body)
		}
		s.storeRow(req.Key, row, next)
	}
	return err
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	if err := validateCall(ctx, req.Key); err != nil {
		return storeapi.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(req.Key)
	next, write, err := protocol.Complete(*row, now, &req)
	if err != nil {
		return storeapi.Record{}, err
	}
	if write {
		next.Answer.Body = bytes.Clone(next.Answer.Body)
		s.storeRow(req.Key, row, next)
		// The caller has just passed this answer, so it needs no copy.
		rec := next.Record(req.Key, now)
		rec.Fingerprint, rec.Binding, rec.Answer = bytes.Clone(rec.Fingerprint), bytes.Clone(rec.Binding), req.Answer
		return rec, nil
	}
	return copyRecord(&next, req.Key, now), nil
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	if err := validateCall(ctx, req.Key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(req.Key)
	next, write, err := protocol.Release(*row, now, &req)
	if write {
		s.storeRow(req.Key, row, next)
	}
	return err
}

// ForgetAnswer implements [storeapi.Forgetter].
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	if err := validateCall(ctx, req.Key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(req.Key)
	next, write, err := protocol.Forget(*row, now, &req)
	if write {
		s.storeRow(req.Key, row, next)
	}
	return err
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if err := validateCall(ctx, key); err != nil {
		return storeapi.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(key)
	return copyRecord(row, key, now), nil
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	if err := validateCall(ctx, req.Key); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, row := s.rowAt(req.Key)
	next, status, write := protocol.Issue(*row, now, &req)
	if write {
		s.storeRow(req.Key, row, next)
	}
	return status, nil
}

// Len returns the number of records, including expired ones that no sweep has removed yet.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func validateCall(ctx context.Context, key storeapi.StoreKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return key.Validate()
}

var absentRow protocol.Row // never written

func (s *Store) rowAt(key storeapi.StoreKey) (protocol.Micros, *protocol.Row) {
	now := s.clock().UnixMicro()
	if row := s.rows[key]; row != nil {
		return now, row
	}
	return now, &absentRow
}

// storeRow stores next in the place of row, and returns that place.
func (s *Store) storeRow(key storeapi.StoreKey, row *protocol.Row, next protocol.Row) *protocol.Row {
	if row == &absentRow {
		row = new(protocol.Row)
		s.rows[key] = row
	}
	*row = next
	return row
}

// copyRecord returns a record with copies of what a caller could change.
func copyRecord(row *protocol.Row, key storeapi.StoreKey, now protocol.Micros) storeapi.Record {
	rec := row.Record(key, now)
	rec.Fingerprint, rec.Binding = bytes.Clone(rec.Fingerprint), bytes.Clone(rec.Binding)
	rec.Answer.Body = bytes.Clone(rec.Answer.Body)
	return rec
}
