package nearstore

import (
	"context"
	"errors"
	"hash/maphash"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var (
	_ storeapi.Issuer      = (*Store)(nil)
	_ storeapi.Limiter     = (*Store)(nil)
	_ storeapi.UsageReader = (*Store)(nil)
	_ storeapi.Lister      = (*Store)(nil)
	_ storeapi.Notifier    = (*Store)(nil)
	_ storeapi.Sweeper     = (*Store)(nil)
	_ storeapi.Batcher     = (*Store)(nil)
	_ storeapi.Keeper      = (*Store)(nil)
	_ storeapi.Sharer      = (*Store)(nil)
	_ storeapi.Forgetter   = (*Store)(nil)
)

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	if inner, ok := s.Store.(storeapi.Issuer); ok {
		return inner.Issue(ctx, req)
	}
	return 0, errors.ErrUnsupported
}

// Charge implements [storeapi.Limiter].
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if inner, ok := s.Store.(storeapi.Limiter); ok {
		return inner.Charge(ctx, req)
	}
	return storeapi.Charged{}, errors.ErrUnsupported
}

// Usage implements [storeapi.UsageReader].
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if inner, ok := s.Store.(storeapi.UsageReader); ok {
		return inner.Usage(ctx, req)
	}
	return storeapi.Usage{}, errors.ErrUnsupported
}

// List implements [storeapi.Lister].
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	if inner, ok := s.Store.(storeapi.Lister); ok {
		return inner.List(ctx, req)
	}
	return storeapi.Page{}, errors.ErrUnsupported
}

// Watch implements [storeapi.Notifier].
func (s *Store) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	if inner, ok := s.Store.(storeapi.Notifier); ok {
		return inner.Watch(ctx, key, changed)
	}
	return errors.ErrUnsupported
}

// Sweep implements [storeapi.Sweeper].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if inner, ok := s.Store.(storeapi.Sweeper); ok {
		return inner.Sweep(ctx, limit)
	}
	return 0, errors.ErrUnsupported
}

// ForgetAnswer implements [storeapi.Forgetter]. It drops the copy of this process; other processes
// use theirs until [Options].Age has passed.
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	inner, ok := s.Store.(storeapi.Forgetter)
	if !ok {
		return errors.ErrUnsupported
	}
	err := inner.ForgetAnswer(ctx, req)
	s.dropCopy(maphash.Comparable(s.seed, req.Key)) // also after an error: it may have been done
	return err
}

// Keeps implements [storeapi.Keeper].
func (s *Store) Keeps(ctx context.Context) error {
	if inner, ok := s.Store.(storeapi.Keeper); ok {
		return inner.Keeps(ctx)
	}
	return errors.ErrUnsupported
}

// Shared implements [storeapi.Sharer].
func (s *Store) Shared() bool {
	inner, ok := s.Store.(storeapi.Sharer)
	return ok && inner.Shared()
}

// AcquireBatch implements [storeapi.Batcher]. It does not use copies.
func (s *Store) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	if inner, ok := s.Store.(storeapi.Batcher); ok {
		return inner.AcquireBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// ExtendBatch implements [storeapi.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	if inner, ok := s.Store.(storeapi.Batcher); ok {
		return inner.ExtendBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// CompleteBatch implements [storeapi.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	if inner, ok := s.Store.(storeapi.Batcher); ok {
		return inner.CompleteBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// ReleaseBatch implements [storeapi.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	if inner, ok := s.Store.(storeapi.Batcher); ok {
		return inner.ReleaseBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}
