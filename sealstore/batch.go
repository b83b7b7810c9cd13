package sealstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/storeapi"
)

// sent are the calls of a batch that the inner store gets: those that could be sealed. at has the
// place of each in the batch.
type sent[R any] struct {
	reqs []R
	at   []int
	errs []error // of the others, by their place in the batch
}

// sealAll seals the calls of a batch. Nil stays nil.
func sealAll[R any](reqs []R, sealOne func(*R) (R, error)) sent[R] {
	s := sent[R]{reqs: make([]R, 0, len(reqs)), errs: make([]error, len(reqs))}
	if reqs == nil {
		s.reqs = nil
	}
	for i := range reqs {
		one, err := sealOne(&reqs[i])
		if err != nil {
			s.errs[i] = err
			continue
		}
		s.reqs, s.at = append(s.reqs, one), append(s.at, i)
	}
	return s
}

// results returns the results of the whole batch.
func results[R, T any](s *sent[R], got []storeapi.BatchResult[T]) ([]storeapi.BatchResult[T], error) {
	if len(got) != len(s.at) {
		return nil, errShort
	}
	all := make([]storeapi.BatchResult[T], len(s.errs))
	for i, err := range s.errs {
		all[i].Err = err
	}
	for i, at := range s.at {
		all[at] = got[i]
	}
	return all, nil
}

// errorsOf returns the errors of the whole batch.
func errorsOf[R any](s *sent[R], got []error) ([]error, error) {
	if len(got) != len(s.at) {
		return nil, errShort
	}
	for i, at := range s.at {
		s.errs[at] = got[i]
	}
	return s.errs, nil
}

// AcquireBatch implements [storeapi.Batcher].
func (s *Store) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	inner, ok := s.inner.(storeapi.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var noKeys []error
	batch := sealAll(reqs, func(req *storeapi.AcquireRequest) (storeapi.AcquireRequest, error) {
		sealed := *req
		noKey, err := s.prepare(ctx, &sealed)
		if err == nil {
			noKeys = append(noKeys, noKey)
		}
		return sealed, err
	})
	got, err := inner.AcquireBatch(ctx, batch.reqs)
	if err != nil {
		return nil, err
	}
	for i := range got {
		if got[i].Err == nil && i < len(noKeys) {
			got[i].Err = s.acquired(ctx, &got[i].Value, noKeys[i])
		}
	}
	return results(&batch, got)
}

// ExtendBatch implements [storeapi.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	inner, ok := s.inner.(storeapi.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	batch := sealAll(reqs, func(req *storeapi.ExtendRequest) (storeapi.ExtendRequest, error) { return s.sealExtend(ctx, *req) })
	got, err := inner.ExtendBatch(ctx, batch.reqs)
	if err != nil {
		return nil, err
	}
	return errorsOf(&batch, got)
}

// CompleteBatch implements [storeapi.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	inner, ok := s.inner.(storeapi.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	batch := sealAll(reqs, func(req *storeapi.CompleteRequest) (storeapi.CompleteRequest, error) {
		return s.sealComplete(ctx, *req)
	})
	got, err := inner.CompleteBatch(ctx, batch.reqs)
	if err != nil {
		return nil, err
	}
	for i := range got {
		if got[i].Err == nil && i < len(batch.at) {
			got[i].Value, got[i].Err = s.completed(ctx, got[i].Value, &batch.reqs[i].Answer, &reqs[batch.at[i]].Answer)
		}
	}
	return results(&batch, got)
}

// ReleaseBatch implements [storeapi.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	inner, ok := s.inner.(storeapi.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	batch := sealAll(reqs, func(req *storeapi.ReleaseRequest) (storeapi.ReleaseRequest, error) { return s.sealRelease(ctx, *req) })
	got, err := inner.ReleaseBatch(ctx, batch.reqs)
	if err != nil {
		return nil, err
	}
	return errorsOf(&batch, got)
}
