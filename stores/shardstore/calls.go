package shardstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/internal/parallel"
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

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	name, shard, err := s.homeShard(ctx, req.Key)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	got, err := shard.Acquire(ctx, req)
	return got, shardError(name, err)
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	name, shard, err := s.homeShard(ctx, req.Key)
	if err != nil {
		return err
	}
	return shardError(name, shard.Extend(ctx, req))
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	name, shard, err := s.homeShard(ctx, req.Key)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec, err := shard.Complete(ctx, req)
	return rec, shardError(name, err)
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	name, shard, err := s.homeShard(ctx, req.Key)
	if err != nil {
		return err
	}
	return shardError(name, shard.Release(ctx, req))
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	name, shard, err := s.homeShard(ctx, key)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec, err := shard.Lookup(ctx, key)
	return rec, shardError(name, err)
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	name, shard, err := s.homeShard(ctx, req.Key)
	if err != nil {
		return 0, err
	}
	issuer, ok := shard.(storeapi.Issuer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	status, err := issuer.Issue(ctx, req)
	return status, shardError(name, err)
}

// ForgetAnswer implements [storeapi.Forgetter].
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	name, shard, err := s.homeShard(ctx, req.Key)
	if err != nil {
		return err
	}
	if f, ok := shard.(storeapi.Forgetter); ok {
		return shardError(name, f.ForgetAnswer(ctx, req))
	}
	return errors.ErrUnsupported
}

// Watch implements [storeapi.Notifier].
func (s *Store) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	_, shard, err := s.homeShard(ctx, key)
	if err != nil {
		return err
	}
	if n, ok := shard.(storeapi.Notifier); ok {
		return n.Watch(ctx, key, changed)
	}
	return errors.ErrUnsupported
}

// countsKey returns the key at whose home the counts of a tenant are.
func countsKey(namespace, tenant string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: namespace, Layer: "limit", Key: storeapi.Key{Tenant: tenant}}
}

// Charge implements [storeapi.Limiter]. A tenant's counts are in one shard.
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if err := errors.Join(ctx.Err(), req.Validate()); err != nil {
		return storeapi.Charged{}, err
	}
	name, err := s.Home(countsKey(req.Namespace, req.Tenant))
	if err != nil {
		return storeapi.Charged{}, err
	}
	limiter, ok := s.shards[name].(storeapi.Limiter)
	if !ok {
		return storeapi.Charged{}, errors.ErrUnsupported
	}
	charged, err := limiter.Charge(ctx, req)
	return charged, shardError(name, err)
}

// Usage implements [storeapi.UsageReader].
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if err := errors.Join(ctx.Err(), req.Validate()); err != nil {
		return storeapi.Usage{}, err
	}
	name, err := s.Home(countsKey(req.Namespace, req.Tenant))
	if err != nil {
		return storeapi.Usage{}, err
	}
	reader, ok := s.shards[name].(storeapi.UsageReader)
	if !ok {
		return storeapi.Usage{}, errors.ErrUnsupported
	}
	u, err := reader.Usage(ctx, req)
	return u, shardError(name, err)
}

// List implements [storeapi.Lister]: one shard after the other, sorted by name.
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Page{}, err
	}
	limit := req.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	at, after, _ := strings.Cut(req.After, cursorMark)
	var page storeapi.Page
	for i, name := range s.names {
		if name < at {
			continue
		}
		if name > at {
			after = ""
		}
		for {
			req.After, req.Limit = after, limit-len(page.Records)
			part, err := s.listShard(ctx, name, req)
			if err != nil {
				return storeapi.Page{}, err
			}
			page.Scans, page.Read = page.Scans || part.Scans, page.Read+part.Read
			for _, rec := range part.Records {
				if rec.Key.Namespace != listNamespace {
					page.Records = append(page.Records, rec)
				}
			}
			for _, u := range part.Unreadable {
				if u.Key.Namespace != listNamespace {
					page.Unreadable = append(page.Unreadable, u)
				}
			}
			after = part.Next
			// A store that scans has returned for its caller to see how far it is.
			if after != "" && (part.Scans || len(page.Records) >= limit) {
				page.Next = name + cursorMark + after
				return page, nil
			}
			if after == "" {
				break
			}
		}
		if len(page.Records) >= limit {
			if i+1 < len(s.names) {
				page.Next = s.names[i+1] + cursorMark
			}
			return page, nil
		}
	}
	return page, nil
}

// cursorMark separates the name of a shard from the shard's own cursor. Names of shards cannot
// contain it.
const cursorMark = "\x00"

func (s *Store) listShard(ctx context.Context, name string, req storeapi.ListRequest) (storeapi.Page, error) {
	lister, ok := s.shards[name].(storeapi.Lister)
	if !ok {
		return storeapi.Page{}, errors.ErrUnsupported
	}
	page, err := lister.List(ctx, req)
	return page, shardError(name, err)
}

// Sweep implements [storeapi.Sweeper] for the shards that need it, one after the other. A shard
// that is away does not keep it from the others.
func (s *Store) Sweep(ctx context.Context, limit int) (removed int, err error) {
	swept := false
	var errs []error
	for _, name := range s.names {
		sweeper, ok := s.shards[name].(storeapi.Sweeper)
		if !ok {
			continue
		}
		if swept && removed >= limit {
			break
		}
		n, err := sweeper.Sweep(ctx, limit-removed)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		swept = true
		removed += n
		errs = append(errs, shardError(name, err))
	}
	if !swept {
		return 0, errors.ErrUnsupported
	}
	return removed, errors.Join(errs...)
}

// Shared implements [storeapi.Sharer]. It reports whether any shard is shared.
func (s *Store) Shared() bool {
	for _, shard := range s.shards {
		if inner, ok := shard.(storeapi.Sharer); ok && inner.Shared() {
			return true
		}
	}
	return false
}

// Keeps implements [storeapi.Keeper]. It checks each shard.
func (s *Store) Keeps(ctx context.Context) error {
	for _, name := range s.names {
		keeper, ok := s.shards[name].(storeapi.Keeper)
		if !ok {
			return errors.ErrUnsupported
		}
		if err := keeper.Keeps(ctx); err != nil {
			return fmt.Errorf("shardstore: shard %q: %w", name, err)
		}
	}
	return nil
}

// supportBatches reports whether every shard supports batches.
func (s *Store) supportBatches(ctx context.Context) (bool, error) {
	for _, name := range s.names {
		b, ok := s.shards[name].(storeapi.Batcher)
		if !ok {
			return false, nil
		}
		if _, err := b.AcquireBatch(ctx, nil); errors.Is(err, errors.ErrUnsupported) {
			return false, nil
		} else if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return true, nil
}

// AcquireBatch implements [storeapi.Batcher].
func (s *Store) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	type result = storeapi.BatchResult[storeapi.Acquired]
	return sendBatch(ctx, s, reqs, func(r *storeapi.AcquireRequest) storeapi.StoreKey { return r.Key },
		storeapi.Batcher.AcquireBatch, func(err error) result { return result{Err: err} })
}

// ExtendBatch implements [storeapi.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	return sendBatch(ctx, s, reqs, func(r *storeapi.ExtendRequest) storeapi.StoreKey { return r.Key },
		storeapi.Batcher.ExtendBatch, func(err error) error { return err })
}

// CompleteBatch implements [storeapi.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	type result = storeapi.BatchResult[storeapi.Record]
	return sendBatch(ctx, s, reqs, func(r *storeapi.CompleteRequest) storeapi.StoreKey { return r.Key },
		storeapi.Batcher.CompleteBatch, func(err error) result { return result{Err: err} })
}

// ReleaseBatch implements [storeapi.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	return sendBatch(ctx, s, reqs, func(r *storeapi.ReleaseRequest) storeapi.StoreKey { return r.Key },
		storeapi.Batcher.ReleaseBatch, func(err error) error { return err })
}

// maxParallel is the largest number of concurrent calls of one batch.
const maxParallel = 8

// sendBatch sends each shard its part, in the order of the calls.
func sendBatch[Q, R any](ctx context.Context, s *Store, reqs []Q, key func(*Q) storeapi.StoreKey,
	send func(storeapi.Batcher, context.Context, []Q) ([]R, error), failure func(error) R,
) ([]R, error) {
	if !s.batches {
		return nil, errors.ErrUnsupported
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]R, len(reqs))
	parts := map[string][]int{} // the indexes of each shard's calls
	var names []string
	for i := range reqs {
		name, _, err := s.homeShard(ctx, key(&reqs[i]))
		if err != nil {
			results[i] = failure(err)
			continue
		}
		if parts[name] == nil {
			names = append(names, name)
		}
		parts[name] = append(parts[name], i)
	}
	parallel.Each(len(names), maxParallel, func(n int) {
		name := names[n]
		part := make([]Q, len(parts[name]))
		for j, i := range parts[name] {
			part[j] = reqs[i]
		}
		got, err := send(s.shards[name].(storeapi.Batcher), ctx, part) //nolint:forcetypeassert,errcheck // New has looked
		for j, i := range parts[name] {
			if err != nil {
				results[i] = failure(shardError(name, err))
			} else {
				results[i] = got[j]
			}
		}
	})
	return results, nil
}
