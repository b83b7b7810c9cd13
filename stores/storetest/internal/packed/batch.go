package packed

import (
	"context"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// AcquireBatch implements [storeapi.Batcher] for the suite. Like the other batch methods, it makes
// one call after the other.
func (s *Store) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	return callEach(ctx, reqs, s.Acquire)
}

// ExtendBatch implements [storeapi.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	return callEachForErrors(ctx, reqs, s.Extend)
}

// CompleteBatch implements [storeapi.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	return callEach(ctx, reqs, s.Complete)
}

// ReleaseBatch implements [storeapi.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	return callEachForErrors(ctx, reqs, s.Release)
}

func callEach[Req, T any](ctx context.Context, reqs []Req, call func(context.Context, Req) (T, error)) ([]storeapi.BatchResult[T], error) {
	all := make([]storeapi.BatchResult[T], len(reqs))
	for i, req := range reqs {
		all[i].Value, all[i].Err = call(ctx, req)
	}
	return all, nil
}

func callEachForErrors[Req any](ctx context.Context, reqs []Req, call func(context.Context, Req) error) ([]error, error) {
	all := make([]error, len(reqs))
	for i, req := range reqs {
		all[i] = call(ctx, req)
	}
	return all, nil
}
