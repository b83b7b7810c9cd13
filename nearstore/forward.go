package nearstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
)

var (
	_ retrysafe.Issuer   = (*Store)(nil)
	_ retrysafe.Limiter  = (*Store)(nil)
	_ retrysafe.Lister   = (*Store)(nil)
	_ retrysafe.Notifier = (*Store)(nil)
	_ retrysafe.Sweeper  = (*Store)(nil)
	_ retrysafe.Batcher  = (*Store)(nil)
	_ retrysafe.Keeper   = (*Store)(nil)
	_ retrysafe.Sharer   = (*Store)(nil)
)

// Issue implements [retrysafe.Issuer].
func (s *Store) Issue(ctx context.Context, req retrysafe.IssueRequest) (retrysafe.Status, error) {
	if inner, ok := s.Store.(retrysafe.Issuer); ok {
		return inner.Issue(ctx, req)
	}
	return 0, errors.ErrUnsupported
}

// Charge implements [retrysafe.Limiter].
func (s *Store) Charge(ctx context.Context, req retrysafe.ChargeRequest) (retrysafe.Charged, error) {
	if inner, ok := s.Store.(retrysafe.Limiter); ok {
		return inner.Charge(ctx, req)
	}
	return retrysafe.Charged{}, errors.ErrUnsupported
}

// List implements [retrysafe.Lister].
func (s *Store) List(ctx context.Context, req retrysafe.ListRequest) (retrysafe.Page, error) {
	if inner, ok := s.Store.(retrysafe.Lister); ok {
		return inner.List(ctx, req)
	}
	return retrysafe.Page{}, errors.ErrUnsupported
}

// Watch implements [retrysafe.Notifier].
func (s *Store) Watch(ctx context.Context, key retrysafe.StoreKey, changed func()) error {
	if inner, ok := s.Store.(retrysafe.Notifier); ok {
		return inner.Watch(ctx, key, changed)
	}
	return errors.ErrUnsupported
}

// Sweep implements [retrysafe.Sweeper].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if inner, ok := s.Store.(retrysafe.Sweeper); ok {
		return inner.Sweep(ctx, limit)
	}
	return 0, errors.ErrUnsupported
}

// Keeps implements [retrysafe.Keeper].
func (s *Store) Keeps(ctx context.Context) error {
	if inner, ok := s.Store.(retrysafe.Keeper); ok {
		return inner.Keeps(ctx)
	}
	return errors.ErrUnsupported
}

// Shared implements [retrysafe.Sharer].
func (s *Store) Shared() bool {
	inner, ok := s.Store.(retrysafe.Sharer)
	return ok && inner.Shared()
}

// AcquireBatch implements [retrysafe.Batcher]. It does not use copies.
func (s *Store) AcquireBatch(ctx context.Context, reqs []retrysafe.AcquireRequest) ([]retrysafe.BatchResult[retrysafe.Acquired], error) {
	if inner, ok := s.Store.(retrysafe.Batcher); ok {
		return inner.AcquireBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// ExtendBatch implements [retrysafe.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []retrysafe.ExtendRequest) ([]error, error) {
	if inner, ok := s.Store.(retrysafe.Batcher); ok {
		return inner.ExtendBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// CompleteBatch implements [retrysafe.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []retrysafe.CompleteRequest) ([]retrysafe.BatchResult[retrysafe.Record], error) {
	if inner, ok := s.Store.(retrysafe.Batcher); ok {
		return inner.CompleteBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// ReleaseBatch implements [retrysafe.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []retrysafe.ReleaseRequest) ([]error, error) {
	if inner, ok := s.Store.(retrysafe.Batcher); ok {
		return inner.ReleaseBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}
