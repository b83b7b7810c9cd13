package sqlstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/storeapi"
)

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	// Own copies: the caller may reuse its slices.
	req.Fingerprint, req.Binding = bytes.Clone(req.Fingerprint), bytes.Clone(req.Binding)
	req.Finish = protocol.OwnFinish(req.Finish)
	var status storeapi.Status
	size := len(req.Fingerprint) + len(req.Binding)
	if req.Finish != nil {
		size += len(req.Finish.Answer.Body)
	}
	c := &change{
		db: s.db, ctx: ctx, key: req.Key, notAfter: req.NotAfter, size: size,
		decide: func(cur protocol.Row, now protocol.Micros, floor storeapi.Fence) (next protocol.Row, write bool, err error) {
			next, status, write, err = protocol.Acquire(cur, now, floor, &req)
			return next, write, err
		},
	}
	row, now, err := s.claim(c)
	var lock *lockError
	if errors.As(err, &lock) && lock.ended == nil && !req.NotAfter.IsZero() && s.db.clock().After(req.NotAfter) {
		err = storeapi.ErrTooLate
	}
	if err != nil {
		return storeapi.Acquired{}, err
	}
	return storeapi.Acquired{Status: status, Record: row.Record(req.Key, now)}, nil
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	size := 0
	if req.Progress != nil {
		own := *req.Progress
		own.Body = bytes.Clone(own.Body)
		req.Progress, size = &own, len(own.Body)
	}
	c := &change{
		db: s.db, ctx: ctx, key: req.Key, size: size,
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (protocol.Row, bool, error) {
			next, err := protocol.Extend(cur, now, &req)
			return next, err == nil, err
		},
	}
	_, _, err := s.make(c, heartbeats)
	return err
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	if s.group != nil {
		req.Answer.Body = bytes.Clone(req.Answer.Body)
	}
	c := &change{
		db: s.db, ctx: ctx, key: req.Key, size: len(req.Answer.Body),
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (protocol.Row, bool, error) {
			next, write, err := protocol.Complete(cur, now, &req)
			return next, write || err == nil && s.again(), err
		},
	}
	row, now, err := s.make(c, claims)
	if err != nil {
		return storeapi.Record{}, err
	}
	if !req.Quiet {
		s.tell(c.id)
	}
	return row.Record(req.Key, now), nil
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	c := &change{
		db: s.db, ctx: ctx, key: req.Key,
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (protocol.Row, bool, error) {
			next, write, err := protocol.Release(cur, now, &req)
			return next, write || err == nil && s.again(), err
		},
	}
	_, _, err := s.make(c, claims)
	if err == nil && !req.Quiet {
		s.tell(c.id)
	}
	return err
}

// again reports whether a finish that is already stored is written once more. If PostgreSQL's wait
// for its synchronous replicas was interrupted, commits are visible before the replicas have them.
// So a repeated call, whose first outcome was unknown, is answered after a COMMIT of its own.
func (s *Store) again() bool { return s.db.dialect == PostgreSQL }

// Lookup implements [storeapi.Store]. A key whose transaction (RunTx) is open in this process is
// in progress; the content of its record is not known before the commit.
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if err := s.check(ctx, &key); err != nil {
		return storeapi.Record{}, err
	}
	id := idOf(key)
	// asked first: if it is not open any more, the record shows its outcome
	open := s.running.other(id) != nil
	l, err := s.look(ctx, id)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec := l.row.Record(key, l.now)
	if open && rec.State == 0 {
		rec.State, rec.OnDoubt, rec.LeaseLeft = storeapi.StateInProgress, storeapi.Refuse, strayLease
	}
	return rec, nil
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	var status storeapi.Status // a caller that has left does not read it
	c := &change{
		db: s.db, ctx: ctx, key: req.Key,
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (next protocol.Row, write bool, err error) {
			next, status, write = protocol.Issue(cur, now, &req)
			return next, write, nil
		},
	}
	if _, _, err := s.make(c, claims); err != nil {
		return 0, err
	}
	return status, nil
}
