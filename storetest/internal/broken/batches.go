package broken

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
	"github.com/retrysafe/retrysafe/storetest/internal/packed"
)

type claimed = []storeapi.BatchResult[storeapi.Acquired]

// batching is a store with another AcquireBatch.
type batching struct {
	*packed.Store
	acquire func(context.Context, *packed.Store, []acquireReq) (claimed, error)
}

func (b *batching) AcquireBatch(ctx context.Context, reqs []acquireReq) (claimed, error) {
	return b.acquire(ctx, b.Store, reqs)
}

// batches are mistakes in batches.
func batches() []Broken {
	batch := func(name string, acquire func(context.Context, *packed.Store, []acquireReq) (claimed, error)) Broken {
		all := plain
		all.Lister, all.Batcher, all.Limiter, all.UsageReader = true, true, true, true
		return Broken{name, "Batch", nil, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			return storetest.Backend{Store: &batching{packed.New(clock.Now), acquire}, Advance: clock.Advance}
		}, all}
	}
	return []Broken{
		batch("a batch ends with its first error", func(ctx context.Context, s *packed.Store, reqs []acquireReq) (claimed, error) {
			failed, results := false, make(claimed, len(reqs))
			for i := 0; i < len(reqs) && !failed; i++ {
				results[i].Value, results[i].Err = s.Acquire(ctx, reqs[i])
				failed = results[i].Err != nil
			}
			return results, nil
		}),
		batch("a batch leaves out what has failed", func(ctx context.Context, s *packed.Store, reqs []acquireReq) (claimed, error) {
			results, err := s.AcquireBatch(ctx, reqs)
			return slices.DeleteFunc(results, func(r storeapi.BatchResult[storeapi.Acquired]) bool { return r.Err != nil }), err
		}),
		batch("a batch begins with its last call", func(ctx context.Context, s *packed.Store, reqs []acquireReq) (claimed, error) {
			results := make(claimed, len(reqs))
			for i, req := range slices.Backward(reqs) {
				results[i].Value, results[i].Err = s.Acquire(ctx, req)
			}
			return results, nil
		}),
	}
}
