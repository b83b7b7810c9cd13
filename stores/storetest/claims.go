package storetest

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// claimsClause compares the store's claims with what it implements, so that no clause is left out
// by mistake.
func claimsClause(e *env) {
	for _, c := range []struct {
		name    string
		claimed bool
		call    func(*env) (implemented bool, err error)
	}{
		{"Issuer", e.f.Issuer, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Issuer)
			if !ok {
				return false, nil
			}
			_, err := s.Issue(e.ctx, storeapi.IssueRequest{Key: e.key(), Owner: newOwner(), Retention: retention})
			return true, err
		}},
		{"Limiter", e.f.Limiter, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Limiter)
			if !ok {
				return false, nil
			}
			_, err := s.Charge(e.ctx, storeapi.ChargeRequest{Namespace: "storetest", Tenant: "claims", Keys: 1, For: retention})
			return true, err
		}},
		{"UsageReader", e.f.UsageReader, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.UsageReader)
			if !ok {
				return false, nil
			}
			_, err := s.Usage(e.ctx, storeapi.UsageRequest{Namespace: "storetest", Tenant: "claims"})
			return true, err
		}},
		{"Lister", e.f.Lister, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Lister)
			if !ok {
				return false, nil
			}
			_, err := s.List(e.ctx, storeapi.ListRequest{Limit: 1})
			return true, err
		}},
		{"Notifier", e.f.Notifier, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Notifier)
			if !ok {
				return false, nil
			}
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			err := s.Watch(ctx, e.key(), cancel)
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return true, err
		}},
		{"Sweeper", e.f.Sweeper, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Sweeper)
			if !ok {
				return false, nil
			}
			_, err := s.Sweep(e.ctx, 1)
			return true, err
		}},
		{"Forgetter", e.f.Forgetter, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Forgetter)
			if !ok {
				return false, nil
			}
			err := s.ForgetAnswer(e.ctx, storeapi.ForgetRequest{Key: e.key(), Fence: 1})
			if errors.Is(err, storeapi.ErrFenceChanged) {
				err = nil // there is no such record
			}
			return true, err
		}},
		{"Batcher", e.f.Batcher, func(e *env) (bool, error) {
			s, ok := e.Store.(storeapi.Batcher)
			if !ok {
				return false, nil
			}
			_, err := s.AcquireBatch(e.ctx, nil)
			return true, err
		}},
	} {
		e.runSubtest(c.name, func(e *env) {
			implemented, err := c.call(e)
			if errors.Is(err, errors.ErrUnsupported) {
				implemented = false
			} else {
				assert.NoError(e, err, "the first call of %s", c.name)
			}
			assert.Equal(e, implemented, c.claimed, "the store has %s, as Features says", c.name)
		})
	}
}
