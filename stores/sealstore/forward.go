package sealstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var (
	_ storeapi.Store       = (*Store)(nil)
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
	if err := checkKey(&req.Key); err != nil {
		return 0, err
	}
	if inner, ok := s.inner.(storeapi.Issuer); ok {
		return inner.Issue(ctx, req)
	}
	return 0, errors.ErrUnsupported
}

// ForgetAnswer implements [storeapi.Forgetter]: the sealed answer is removed, and needs no key.
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	if err := checkKey(&req.Key); err != nil {
		return err
	}
	if inner, ok := s.inner.(storeapi.Forgetter); ok {
		return inner.ForgetAnswer(ctx, req)
	}
	return errors.ErrUnsupported
}

// Charge implements [storeapi.Limiter].
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if inner, ok := s.inner.(storeapi.Limiter); ok {
		return inner.Charge(ctx, req)
	}
	return storeapi.Charged{}, errors.ErrUnsupported
}

// Usage implements [storeapi.UsageReader].
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if inner, ok := s.inner.(storeapi.UsageReader); ok {
		return inner.Usage(ctx, req)
	}
	return storeapi.Usage{}, errors.ErrUnsupported
}

// List implements [storeapi.Lister], without the records of data keys. Lists leave out the bodies
// of answers, so only the texts of errors are opened; one that cannot be opened is "(sealed)".
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	inner, ok := s.inner.(storeapi.Lister)
	if !ok {
		return storeapi.Page{}, errors.ErrUnsupported
	}
	page, err := inner.List(ctx, req)
	if err != nil {
		return page, err
	}
	records := page.Records
	page.Records = nil
	for i := range records {
		rec := &records[i]
		if rec.Key.Namespace == Namespace {
			continue
		}
		s.openText(ctx, rec)
		if rec.Answer.Sealed() {
			rec.Answer = storeapi.Answer{Codec: rec.Answer.Codec[len(storeapi.SealedPrefix):], Kept: rec.Answer.Kept, Size: rec.Answer.Size}
		}
		page.Records = append(page.Records, *rec)
	}
	return page, nil
}

// Watch implements [storeapi.Notifier].
func (s *Store) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	if inner, ok := s.inner.(storeapi.Notifier); ok {
		return inner.Watch(ctx, key, changed)
	}
	return errors.ErrUnsupported
}

// Sweep implements [storeapi.Sweeper].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if inner, ok := s.inner.(storeapi.Sweeper); ok {
		return inner.Sweep(ctx, limit)
	}
	return 0, errors.ErrUnsupported
}

// Keeps implements [storeapi.Keeper]. It asks the inner store, not the store of the data keys.
func (s *Store) Keeps(ctx context.Context) error {
	if inner, ok := s.inner.(storeapi.Keeper); ok {
		return inner.Keeps(ctx)
	}
	return errors.ErrUnsupported
}

// Shared implements [storeapi.Sharer].
func (s *Store) Shared() bool {
	inner, ok := s.inner.(storeapi.Sharer)
	return ok && inner.Shared()
}
