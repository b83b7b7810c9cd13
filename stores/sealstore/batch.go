package sealstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// sealedBatch are the calls of a batch that the inner store gets: those that could be sealed.
// places has the place of each in the batch.
type sealedBatch[R any] struct {
	reqs   []R
	places []int
	errs   []error // of the others, by their place in the batch
}

// sealAll seals the calls of a batch. Nil stays nil.
func sealAll[R any](reqs []R, sealOne func(*R) (R, error)) sealedBatch[R] {
	s := sealedBatch[R]{reqs: make([]R, 0, len(reqs)), errs: make([]error, len(reqs))}
	if reqs == nil {
		s.reqs = nil
	}
	for i := range reqs {
		one, err := sealOne(&reqs[i])
		if err != nil {
			s.errs[i] = err
			continue
		}
		s.reqs, s.places = append(s.reqs, one), append(s.places, i)
	}
	return s
}

// batchResults returns the results of the whole batch.
func batchResults[R, T any](s *sealedBatch[R], got []storeapi.BatchResult[T]) ([]storeapi.BatchResult[T], error) {
	if len(got) != len(s.places) {
		return nil, errTooFewAnswers
	}
	all := make([]storeapi.BatchResult[T], len(s.errs))
	for i, err := range s.errs {
		all[i].Err = err
	}
	for i, at := range s.places {
		all[at] = got[i]
	}
	return all, nil
}

// batchErrors returns the errors of the whole batch.
func batchErrors[R any](s *sealedBatch[R], got []error) ([]error, error) {
	if len(got) != len(s.places) {
		return nil, errTooFewAnswers
	}
	for i, at := range s.places {
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
		noKey, err := s.sealAcquire(ctx, &sealed)
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
			got[i].Err = s.openAcquired(ctx, &got[i].Value, noKeys[i])
		}
	}
	return batchResults(&batch, got)
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
	return batchErrors(&batch, got)
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
		if got[i].Err == nil && i < len(batch.places) {
			got[i].Value, got[i].Err = s.openCompleted(ctx, got[i].Value, &batch.reqs[i].Answer, &reqs[batch.places[i]].Answer)
		}
	}
	return batchResults(&batch, got)
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
	return batchErrors(&batch, got)
}
