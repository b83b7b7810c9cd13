package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// Acquire implements [retrysafe.Store].
func (s *Store) Acquire(ctx context.Context, req retrysafe.AcquireRequest) (retrysafe.Acquired, error) {
	var status retrysafe.Status
	row, now, err := s.change(ctx, req.Key, req.NotAfter, func(cur protocol.Row, now protocol.Micros, floor retrysafe.Fence) (next protocol.Row, write bool, err error) {
		next, status, write, err = protocol.Acquire(cur, now, floor, &req)
		return next, write, err
	})
	var lock *lockError
	if errors.As(err, &lock) && lock.ended == nil && !req.NotAfter.IsZero() && s.clock().After(req.NotAfter) {
		err = retrysafe.ErrTooLate
	}
	if err != nil {
		return retrysafe.Acquired{}, err
	}
	// The row may hold the request's own slices, which the caller may use again.
	row.Fingerprint, row.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	return retrysafe.Acquired{Status: status, Record: row.Record(req.Key, now)}, nil
}

// Extend implements [retrysafe.Store].
func (s *Store) Extend(ctx context.Context, req retrysafe.ExtendRequest) error {
	_, _, err := s.change(ctx, req.Key, time.Time{}, func(cur protocol.Row, now protocol.Micros, _ retrysafe.Fence) (protocol.Row, bool, error) {
		next, err := protocol.Extend(cur, now, &req)
		return next, err == nil, err
	})
	return err
}

// Complete implements [retrysafe.Store].
func (s *Store) Complete(ctx context.Context, req retrysafe.CompleteRequest) (retrysafe.Record, error) {
	row, now, err := s.change(ctx, req.Key, time.Time{}, func(cur protocol.Row, now protocol.Micros, _ retrysafe.Fence) (protocol.Row, bool, error) {
		return protocol.Complete(cur, now, &req)
	})
	if err != nil {
		return retrysafe.Record{}, err
	}
	return row.Record(req.Key, now), nil
}

// Release implements [retrysafe.Store].
func (s *Store) Release(ctx context.Context, req retrysafe.ReleaseRequest) error {
	_, _, err := s.change(ctx, req.Key, time.Time{}, func(cur protocol.Row, now protocol.Micros, _ retrysafe.Fence) (protocol.Row, bool, error) {
		return protocol.Release(cur, now, &req)
	})
	return err
}

// Lookup implements [retrysafe.Store]. A key whose transaction (RunTx) is open in this process is in progress; what will be in its record
// is not known before the commit.
func (s *Store) Lookup(ctx context.Context, key retrysafe.StoreKey) (retrysafe.Record, error) {
	if err := s.check(ctx, &key); err != nil {
		return retrysafe.Record{}, err
	}
	id := idOf(key)
	open := s.running.other(id) != nil // asked first: what is not open any more is in the record
	l, err := s.look(ctx, id)
	if err != nil {
		return retrysafe.Record{}, err
	}
	rec := l.row.Record(key, l.now)
	if open && rec.State == 0 {
		rec.State, rec.OnDoubt, rec.LeaseLeft = retrysafe.StateInProgress, retrysafe.Refuse, strayLease
	}
	return rec, nil
}

// Issue implements [retrysafe.Issuer].
func (s *Store) Issue(ctx context.Context, req retrysafe.IssueRequest) (status retrysafe.Status, err error) {
	_, _, err = s.change(ctx, req.Key, time.Time{}, func(cur protocol.Row, now protocol.Micros, _ retrysafe.Fence) (next protocol.Row, write bool, err error) {
		next, status, write = protocol.Issue(cur, now, &req)
		return next, write, nil
	})
	if err != nil {
		return 0, err
	}
	return status, nil
}
