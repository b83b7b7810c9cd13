package broken

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

// listStore is a store with another List.
type listStore struct {
	*packed.Store
	list func(context.Context, *packed.Store, storeapi.ListRequest) (storeapi.Page, error)
}

func (l *listStore) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	return l.list(ctx, l.Store, req)
}

// listMistakes are mistakes in lists.
func listMistakes() []Broken {
	list := func(name string, list func(context.Context, *packed.Store, storeapi.ListRequest) (storeapi.Page, error)) Broken {
		all := plainFeatures
		all.Lister, all.Batcher, all.Limiter, all.UsageReader, all.Forgetter = true, true, true, true, true
		return Broken{name, "List", nil, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			return storetest.Backend{Store: &listStore{packed.New(clock.Now), list}, Advance: clock.Advance}
		}, all}
	}
	return []Broken{
		list("a listing ends with its first page", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			page, err := s.List(ctx, req)
			page.Next = ""
			return page, err
		}),
		list("a page begins with the last record of the one before", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			if n := len(req.After); n > 0 {
				req.After = req.After[:n-1]
			}
			return s.List(ctx, req)
		}),
		list("a listing shows answers", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			page, err := s.List(ctx, req)
			for i := range page.Records {
				page.Records[i].Answer.Body = []byte("answer")
			}
			return page, err
		}),
		list("a listing takes every record in progress for one in doubt", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			if req.InDoubt && req.State == 0 {
				req.InDoubt, req.State = false, storeapi.StateInProgress
			}
			return s.List(ctx, req)
		}),
		list("a listing of doubts leaves out those that are asked about", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			page, err := s.List(ctx, req)
			if req.Asked {
				page.Records = slices.DeleteFunc(page.Records, func(r storeapi.Record) bool { return !r.InDoubt() })
			}
			return page, err
		}),
		list("a listing of progress shows every record", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			req.Progress = false
			return s.List(ctx, req)
		}),
		list("a listing forgets the tenant", func(ctx context.Context, s *packed.Store, req storeapi.ListRequest) (storeapi.Page, error) {
			req.Tenant = ""
			return s.List(ctx, req)
		}),
	}
}
