package packed

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// AcquireBatch implements [retrysafe.Batcher] for the suite. Like the other batch methods, it makes
// one call after the other.
func (s *Store) AcquireBatch(ctx context.Context, reqs []retrysafe.AcquireRequest) ([]retrysafe.BatchResult[retrysafe.Acquired], error) {
	return results(ctx, reqs, s.Acquire)
}

// ExtendBatch implements [retrysafe.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []retrysafe.ExtendRequest) ([]error, error) {
	return errs(ctx, reqs, s.Extend)
}

// CompleteBatch implements [retrysafe.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []retrysafe.CompleteRequest) ([]retrysafe.BatchResult[retrysafe.Record], error) {
	return results(ctx, reqs, s.Complete)
}

// ReleaseBatch implements [retrysafe.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []retrysafe.ReleaseRequest) ([]error, error) {
	return errs(ctx, reqs, s.Release)
}

func results[Req, T any](ctx context.Context, reqs []Req, call func(context.Context, Req) (T, error)) ([]retrysafe.BatchResult[T], error) {
	all := make([]retrysafe.BatchResult[T], len(reqs))
	for i, req := range reqs {
		all[i].Value, all[i].Err = call(ctx, req)
	}
	return all, nil
}

func errs[Req any](ctx context.Context, reqs []Req, call func(context.Context, Req) error) ([]error, error) {
	all := make([]error, len(reqs))
	for i, req := range reqs {
		all[i] = call(ctx, req)
	}
	return all, nil
}
