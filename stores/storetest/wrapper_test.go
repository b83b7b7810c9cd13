package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestFaultyIsAWrapper(t *testing.T) {
	t.Parallel()
	storetest.RunWrapper(t, func(s storeapi.Store) storeapi.Store { return storetest.NewFaulty(s, nil) })
}

// metrics forwards everything, as a wrapper should; each bad wrapper below changes one thing.
type metrics struct{ storeapi.Store }

func (m *metrics) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	if s, ok := m.Store.(storeapi.Issuer); ok {
		return s.Issue(ctx, req)
	}
	return 0, errors.ErrUnsupported
}

func (m *metrics) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if s, ok := m.Store.(storeapi.Limiter); ok {
		return s.Charge(ctx, req)
	}
	return storeapi.Charged{}, errors.ErrUnsupported
}

func (m *metrics) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if s, ok := m.Store.(storeapi.UsageReader); ok {
		return s.Usage(ctx, req)
	}
	return storeapi.Usage{}, errors.ErrUnsupported
}

func (m *metrics) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	if s, ok := m.Store.(storeapi.Forgetter); ok {
		return s.ForgetAnswer(ctx, req)
	}
	return errors.ErrUnsupported
}

func (m *metrics) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	if s, ok := m.Store.(storeapi.Lister); ok {
		return s.List(ctx, req)
	}
	return storeapi.Page{}, errors.ErrUnsupported
}

func (m *metrics) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	if s, ok := m.Store.(storeapi.Notifier); ok {
		return s.Watch(ctx, key, changed)
	}
	return errors.ErrUnsupported
}

func (m *metrics) Shared() bool {
	s, ok := m.Store.(storeapi.Sharer)
	return ok && s.Shared()
}

func (m *metrics) Keeps(ctx context.Context) error {
	if k, ok := m.Store.(storeapi.Keeper); ok {
		return k.Keeps(ctx)
	}
	return errors.ErrUnsupported
}

func (m *metrics) Sweep(ctx context.Context, limit int) (int, error) {
	if s, ok := m.Store.(storeapi.Sweeper); ok {
		return s.Sweep(ctx, limit)
	}
	return 0, errors.ErrUnsupported
}

func (m *metrics) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	if s, ok := m.Store.(storeapi.Batcher); ok {
		return s.AcquireBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

func (m *metrics) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	if s, ok := m.Store.(storeapi.Batcher); ok {
		return s.ExtendBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

func (m *metrics) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	if s, ok := m.Store.(storeapi.Batcher); ok {
		return s.CompleteBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

func (m *metrics) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	if s, ok := m.Store.(storeapi.Batcher); ok {
		return s.ReleaseBatch(ctx, reqs)
	}
	return nil, errors.ErrUnsupported
}

// hiding only embeds the interface, and so hides the optional interfaces.
type hiding struct{ storeapi.Store }

type flattening struct{ metrics }

func (f *flattening) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	r, err := f.Store.Complete(ctx, req)
	if err != nil {
		err = fmt.Errorf("complete: %v", err) //nolint:errorlint // this is the mistake
	}
	return r, err
}

type dropping struct{ metrics }

func (d *dropping) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return d.Store.Acquire(ctx, storeapi.AcquireRequest{
		Key: req.Key, Owner: req.Owner, Fingerprint: req.Fingerprint, Binding: req.Binding, Lease: req.Lease, Retention: req.Retention,
		NotAfter: req.NotAfter, OnDoubt: req.OnDoubt, // written before IfFence existed
	})
}

type detaching struct{ metrics }

func (d *detaching) Lookup(_ context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return d.Store.Lookup(context.Background(), key)
}

type silent struct{ metrics }

func (s *silent) Sweep(ctx context.Context, limit int) (int, error) {
	n, err := s.metrics.Sweep(ctx, limit)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return n, err
}

type emptying struct{ metrics }

func (e *emptying) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	if len(req.Answer.Body) == 0 {
		req.Answer.Body = nil
	}
	return e.Store.Complete(ctx, req)
}

// merging answers a batch only with its first error.
type merging struct{ metrics }

func (m *merging) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	results, err := m.metrics.CompleteBatch(ctx, reqs)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return results, err
}

func TestRunWrapper(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wrap storetest.Wrap
		want string // in a failure; empty: there is none
	}{
		{"a good one", func(s storeapi.Store) storeapi.Store { return &metrics{s} }, ""},
		{"no wrapper", func(s storeapi.Store) storeapi.Store { return s }, "over a store that claims nothing"},
		{"hides", func(s storeapi.Store) storeapi.Store { return &hiding{s} }, "over a store that claims everything"},
		{"flattens errors", func(s storeapi.Store) storeapi.Store { return &flattening{metrics{s}} }, "keeps errors of Complete"},
		{"drops a field", func(s storeapi.Store) storeapi.Store { return &dropping{metrics{s}} }, "request of Acquire"},
		{"drops the context", func(s storeapi.Store) storeapi.Store { return &detaching{metrics{s}} }, "value of the context"},
		{"is silent", func(s storeapi.Store) storeapi.Store { return &silent{metrics{s}} }, "lacks Sweep"},
		{"makes one error of a batch's", func(s storeapi.Store) storeapi.Store { return &merging{metrics{s}} }, "CompleteBatch through the wrapper"},
		{"makes an empty answer nil", func(s storeapi.Store) storeapi.Store { return &emptying{metrics{s}} }, "request of Complete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(storetest.CheckWrapper(t.Context(), c.wrap), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got failures %q, want %q among them", got, c.want)
			}
		})
	}
}
