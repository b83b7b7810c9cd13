package broken

import (
	"context"

	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

// forgetStore is a store with a mistake in ForgetAnswer.
type forgetStore struct {
	*packed.Store
	forget func(context.Context, *packed.Store, storeapi.ForgetRequest) error
}

func (f *forgetStore) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	return f.forget(ctx, f.Store, req)
}

// forgetMistakes are mistakes in removing what a record tells of a person.
func forgetMistakes() []Broken {
	forget := func(name string, forget func(context.Context, *packed.Store, storeapi.ForgetRequest) error, also ...string) Broken {
		all := plainFeatures
		all.Lister, all.Batcher, all.Limiter, all.UsageReader, all.Forgetter = true, true, true, true, true
		return Broken{name, "S23", also, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			return storetest.Backend{Store: &forgetStore{packed.New(clock.Now), forget}, Advance: clock.Advance}
		}, all}
	}
	return []Broken{
		forget("nothing is forgotten", func(ctx context.Context, s *packed.Store, req storeapi.ForgetRequest) error {
			rec, err := s.Lookup(ctx, req.Key)
			switch {
			case err != nil:
				return err
			case rec.Fence != req.Fence || rec.State == 0:
				return storeapi.ErrFenceChanged
			case !rec.State.Finished():
				return storeapi.ErrInProgress
			}
			return nil
		}),
		forget("forgetting ignores the fence", func(ctx context.Context, s *packed.Store, req storeapi.ForgetRequest) error {
			rec, err := s.Lookup(ctx, req.Key)
			if err == nil && rec.State != 0 {
				req.Fence = rec.Fence
			}
			return s.ForgetAnswer(ctx, req)
		}),
		forget("forgetting gives up an attempt", func(ctx context.Context, s *packed.Store, req storeapi.ForgetRequest) error {
			rec, err := s.Lookup(ctx, req.Key)
			if err == nil && rec.Fence == req.Fence && rec.State == storeapi.StateInProgress {
				return s.Release(ctx, storeapi.ReleaseRequest{Key: req.Key, Owner: rec.Owner, Fence: rec.Fence})
			}
			return s.ForgetAnswer(ctx, req)
		}),
		forget("a repeated call is an error", func(ctx context.Context, s *packed.Store, req storeapi.ForgetRequest) error {
			rec, err := s.Lookup(ctx, req.Key)
			if err == nil && rec.State.Finished() && rec.Answer.Codec == "" {
				return storeapi.ErrFenceChanged
			}
			return s.ForgetAnswer(ctx, req)
		}),
		forget("forgetting ignores that its caller has left", func(ctx context.Context, s *packed.Store, req storeapi.ForgetRequest) error {
			return s.ForgetAnswer(context.WithoutCancel(ctx), req)
		}),
	}
}
