package shardstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/internal/parallel"
	"github.com/retrysafe/retrysafe/storeapi"
)

// batches reports whether every shard supports batches.
func (a atlas) batches(ctx context.Context) (bool, error) {
	for _, name := range a.names() {
		b, ok := a[name].(storeapi.Batcher)
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

// together is the largest number of concurrent calls of one batch.
const together = 8

// AcquireBatch implements [storeapi.Batcher]. It makes one batch for each shard, and single calls
// for keys that move.
func (s *Store) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	type result = storeapi.BatchResult[storeapi.Acquired]
	return batch(ctx, s, reqs, func(r *storeapi.AcquireRequest) storeapi.StoreKey { return r.Key },
		func(b storeapi.Batcher, p *place, part []storeapi.AcquireRequest) ([]result, error) {
			for i := range part {
				part[i] = p.bounded(part[i])
			}
			return b.AcquireBatch(ctx, part)
		},
		func(r storeapi.AcquireRequest) result {
			got, err := s.Acquire(ctx, r)
			return result{Value: got, Err: err}
		},
		func(p *place, r result) bool {
			return errors.Is(r.Err, storeapi.ErrTooLate) || r.Err == nil && (r.Value.Record.Now.After(p.until()) || r.Value.Status == storeapi.StatusAcquired && s.old(p))
		},
		func(err error) result { return result{Err: err} })
}

// ExtendBatch implements [storeapi.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	return batch(ctx, s, reqs, func(r *storeapi.ExtendRequest) storeapi.StoreKey { return r.Key },
		func(b storeapi.Batcher, _ *place, part []storeapi.ExtendRequest) ([]error, error) {
			return b.ExtendBatch(ctx, part)
		},
		func(r storeapi.ExtendRequest) error { return s.Extend(ctx, r) }, lostInBatch, same)
}

// CompleteBatch implements [storeapi.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	type result = storeapi.BatchResult[storeapi.Record]
	return batch(ctx, s, reqs, func(r *storeapi.CompleteRequest) storeapi.StoreKey { return r.Key },
		func(b storeapi.Batcher, _ *place, part []storeapi.CompleteRequest) ([]result, error) {
			return b.CompleteBatch(ctx, part)
		},
		func(r storeapi.CompleteRequest) result {
			rec, err := s.Complete(ctx, r)
			return result{Value: rec, Err: err}
		},
		func(p *place, r result) bool { return lostInBatch(p, r.Err) },
		func(err error) result { return result{Err: err} })
}

// ReleaseBatch implements [storeapi.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	return batch(ctx, s, reqs, func(r *storeapi.ReleaseRequest) storeapi.StoreKey { return r.Key },
		func(b storeapi.Batcher, _ *place, part []storeapi.ReleaseRequest) ([]error, error) {
			return b.ReleaseBatch(ctx, part)
		},
		func(r storeapi.ReleaseRequest) error { return s.Release(ctx, r) }, lostInBatch, same)
}

// lostInBatch reports whether an answer needs another look at the map first.
func lostInBatch(_ *place, err error) bool { return errors.Is(err, storeapi.ErrLeaseLost) }

func same(err error) error { return err }

// part is what one shard gets of a batch: the calls at these places.
type part struct {
	place *place
	at    []int
}

// divide divides the n calls of a batch by shard, in the order of the calls. alone are the calls
// whose keys move. It calls refuse for calls that cannot be sent.
func (s *Store) divide(ctx context.Context, n int, key func(int) storeapi.StoreKey, refuse func(int, error)) (parts []*part, alone []int) {
	// A later call may see a newer map, in which the same shard has another floor and other times.
	type target struct {
		name string
		m    *Map
	}
	known := map[target]*part{}
	for i := range n {
		k := key(i)
		if err := check(ctx, k); err != nil {
			refuse(i, err)
			continue
		}
		p, err := s.place(ctx, k)
		switch {
		case errors.Is(err, errMoved) || err == nil && p.moves():
			alone = append(alone, i)
		case err != nil:
			refuse(i, err)
		default:
			to := target{p.name, p.m}
			if known[to] == nil {
				known[to] = &part{place: p}
				parts = append(parts, known[to])
			}
			known[to].at = append(known[to].at, i)
		}
	}
	return parts, alone
}

// batch sends each shard its part, in the order of the calls. A call whose answer may come from an
// old map is repeated as a single call.
func batch[Q, R any](ctx context.Context, s *Store, reqs []Q, key func(*Q) storeapi.StoreKey,
	many func(storeapi.Batcher, *place, []Q) ([]R, error), one func(Q) R, doubtful func(*place, R) bool, failure func(error) R,
) ([]R, error) {
	if !s.batches {
		return nil, errors.ErrUnsupported
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answers := make([]R, len(reqs))
	parts, alone := s.divide(ctx, len(reqs), func(i int) storeapi.StoreKey { return key(&reqs[i]) }, func(i int, err error) { answers[i] = failure(err) })
	tasks := len(parts)
	if len(alone) > 0 {
		tasks++
	}
	parallel.Each(tasks, together, func(n int) {
		if n == len(parts) { // one after the other, since a key may occur several times
			for _, i := range alone {
				answers[i] = one(reqs[i])
			}
			return
		}
		part := parts[n]
		mine := make([]Q, len(part.at))
		for j, i := range part.at {
			mine[j] = reqs[i]
		}
		got, err := many(part.place.home.(storeapi.Batcher), part.place, mine) //nolint:forcetypeassert,errcheck // New has looked
		for j, i := range part.at {
			switch {
			case err != nil:
				answers[i] = failure(failed(part.place.name, err))
			case doubtful(part.place, got[j]):
				answers[i] = one(reqs[i])
			default:
				answers[i] = got[j]
			}
		}
	})
	return answers, nil
}
