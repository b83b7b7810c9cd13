package broken

import (
	"context"

	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

// usageStore is a store with a mistake in what it reads of a tenant's counts.
type usageStore struct {
	*packed.Store
	usage func(context.Context, *packed.Store, storeapi.UsageRequest) (storeapi.Usage, error)
}

func (r *usageStore) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	return r.usage(ctx, r.Store, req)
}

// usageMistakes are mistakes in reading counts.
func usageMistakes() []Broken {
	usage := func(name string, usage func(context.Context, *packed.Store, storeapi.UsageRequest) (storeapi.Usage, error)) Broken {
		all := plainFeatures
		all.Lister, all.Batcher, all.Limiter, all.UsageReader, all.Forgetter = true, true, true, true, true
		return Broken{name, "Usage", nil, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			return storetest.Backend{Store: &usageStore{packed.New(clock.Now), usage}, Advance: clock.Advance}
		}, all}
	}
	return []Broken{
		usage("looking at a rate takes some of it", func(ctx context.Context, s *packed.Store, req storeapi.UsageRequest) (storeapi.Usage, error) {
			u, err := s.Usage(ctx, req)
			for _, r := range u.Rates {
				limits := storeapi.Limits{PerSecond: r.PerSecond, Burst: storeapi.MaxBurst}
				if _, err := s.Charge(ctx, storeapi.ChargeRequest{Namespace: req.Namespace, Tenant: req.Tenant, Keys: 1, For: 1, Limits: limits}); err != nil {
					return u, err
				}
			}
			return u, err
		}),
		usage("all tenants of a namespace have one count", func(ctx context.Context, s *packed.Store, req storeapi.UsageRequest) (storeapi.Usage, error) {
			if err := req.Validate(); err != nil {
				return storeapi.Usage{}, err
			}
			u, err := s.Usage(ctx, req)
			if n := len(req.Tenant); n > 0 && u.Keys == 0 {
				return s.Usage(ctx, storeapi.UsageRequest{Namespace: req.Namespace, Tenant: req.Tenant[:n-1]})
			}
			return u, err
		}),
		usage("its answer has no time", func(ctx context.Context, s *packed.Store, req storeapi.UsageRequest) (storeapi.Usage, error) {
			u, err := s.Usage(ctx, req)
			u.Now = u.Frees
			return u, err
		}),
		usage("it ignores that its caller has left", func(ctx context.Context, s *packed.Store, req storeapi.UsageRequest) (storeapi.Usage, error) {
			return s.Usage(context.WithoutCancel(ctx), req)
		}),
	}
}
