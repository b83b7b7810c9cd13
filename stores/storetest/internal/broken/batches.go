package broken

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

type acquiredResults = []storeapi.BatchResult[storeapi.Acquired]

// batchStore is a store with another AcquireBatch.
type batchStore struct {
	*packed.Store
	acquire func(context.Context, *packed.Store, []acquireReq) (acquiredResults, error)
}

func (b *batchStore) AcquireBatch(ctx context.Context, reqs []acquireReq) (acquiredResults, error) {
	return b.acquire(ctx, b.Store, reqs)
}

// batchMistakes are mistakes in batches.
func batchMistakes() []Broken {
	batch := func(name string, acquire func(context.Context, *packed.Store, []acquireReq) (acquiredResults, error)) Broken {
		all := plainFeatures
		all.Lister, all.Batcher, all.Limiter, all.UsageReader, all.Forgetter = true, true, true, true, true
		return Broken{name, "Batch", nil, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			return storetest.Backend{Store: &batchStore{packed.New(clock.Now), acquire}, Advance: clock.Advance}
		}, all}
	}
	return []Broken{
		batch("a batch ends with its first error", func(ctx context.Context, s *packed.Store, reqs []acquireReq) (acquiredResults, error) {
			failed, results := false, make(acquiredResults, len(reqs))
			for i := 0; i < len(reqs) && !failed; i++ {
				results[i].Value, results[i].Err = s.Acquire(ctx, reqs[i])
				failed = results[i].Err != nil
			}
			return results, nil
		}),
		batch("a batch leaves out what has failed", func(ctx context.Context, s *packed.Store, reqs []acquireReq) (acquiredResults, error) {
			results, err := s.AcquireBatch(ctx, reqs)
			return slices.DeleteFunc(results, func(r storeapi.BatchResult[storeapi.Acquired]) bool { return r.Err != nil }), err
		}),
		batch("a batch begins with its last call", func(ctx context.Context, s *packed.Store, reqs []acquireReq) (acquiredResults, error) {
			results := make(acquiredResults, len(reqs))
			for i, req := range slices.Backward(reqs) {
				results[i].Value, results[i].Err = s.Acquire(ctx, req)
			}
			return results, nil
		}),
	}
}
