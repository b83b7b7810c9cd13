package sealstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestWrapper: what a wrapper before the store passes to it arrives unchanged, except that it is
// sealed. A second wrapper opens the requests again before the store of the suite sees them.
func TestWrapper(t *testing.T) {
	t.Parallel()
	storetest.RunWrapper(t, func(inner storeapi.Store) storeapi.Store {
		keys := KeysIn(memstore.New(nil))
		o := &unsealer{Store: inner}
		full := storeapi.Store(o)
		if _, ok := inner.(storeapi.Batcher); ok {
			full = &openingAll{o, inner.(batcher)} //nolint:errcheck // a store of the suite that claims one claims all
		}
		s := New(full, NewRing("a"), &Options{Keys: keys})
		o.seal = s
		return s
	})
}

// unsealer opens requests that a Store has sealed.
type unsealer struct {
	storeapi.Store

	seal *Store
}

// answer opens a, or returns an error if it is not sealed.
func (o *unsealer) answer(key storeapi.StoreKey, kind storeapi.State, a storeapi.Answer) (storeapi.Answer, error) {
	rec := storeapi.Record{Key: key, State: kind, Answer: a}
	if !hasNothingToSeal(&a) && !a.Sealed() {
		return a, errors.New("an answer is passed on in the clear")
	}
	err := o.seal.openRecord(context.Background(), &rec)
	if err == nil && rec.Answer.Sealed() {
		err = fmt.Errorf("what was sealed cannot be opened: %s", rec.Answer.Codec)
	}
	return rec.Answer, err
}

func (o *unsealer) openText(key storeapi.StoreKey, text string) (string, error) {
	rec := storeapi.Record{Key: key, LastError: text}
	if _, _, ok := parseText(text); text != "" && !ok {
		return "", errors.New("a text is passed on in the clear")
	}
	o.seal.openText(context.Background(), &rec)
	return rec.LastError, nil
}

func (o *unsealer) acquire(req storeapi.AcquireRequest) (_ storeapi.AcquireRequest, err error) {
	if req.Finish == nil {
		return req, nil
	}
	f := *req.Finish
	f.Answer, err = o.answer(req.Key, f.State, f.Answer)
	req.Finish = &f
	return req, err
}

func (o *unsealer) extend(req storeapi.ExtendRequest) (storeapi.ExtendRequest, error) {
	if req.Progress == nil {
		return req, nil
	}
	a, err := o.answer(req.Key, storeapi.StateInProgress, *req.Progress)
	req.Progress = &a
	return req, err
}

func (o *unsealer) complete(req storeapi.CompleteRequest) (_ storeapi.CompleteRequest, err error) {
	req.Answer, err = o.answer(req.Key, req.State, req.Answer)
	return req, err
}

func (o *unsealer) release(req storeapi.ReleaseRequest) (_ storeapi.ReleaseRequest, err error) {
	req.LastError, err = o.openText(req.Key, req.LastError)
	return req, err
}

func (o *unsealer) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	req, err := o.acquire(req)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	return o.Store.Acquire(ctx, req)
}

func (o *unsealer) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	req, err := o.extend(req)
	if err != nil {
		return err
	}
	return o.Store.Extend(ctx, req)
}

func (o *unsealer) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	req, err := o.complete(req)
	if err != nil {
		return storeapi.Record{}, err
	}
	return o.Store.Complete(ctx, req)
}

func (o *unsealer) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	req, err := o.release(req)
	if err != nil {
		return err
	}
	return o.Store.Release(ctx, req)
}

// batcher is every optional interface that a store of the suite claims.
type batcher interface {
	storeapi.Issuer
	storeapi.Limiter
	storeapi.UsageReader
	storeapi.Lister
	storeapi.Notifier
	storeapi.Sweeper
	storeapi.Keeper
	storeapi.Sharer
	storeapi.Forgetter
	storeapi.Batcher
}

// openingAll is opening over a store that claims everything.
type openingAll struct {
	*unsealer
	batcher
}

// openEach opens the calls of a batch.
func openEach[R any](reqs []R, openOne func(R) (R, error)) ([]R, error) {
	var out []R
	for _, req := range reqs {
		one, err := openOne(req)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (o *openingAll) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	reqs, err := openEach(reqs, o.acquire)
	if err != nil {
		return nil, err
	}
	return o.batcher.AcquireBatch(ctx, reqs)
}

func (o *openingAll) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	reqs, err := openEach(reqs, o.extend)
	if err != nil {
		return nil, err
	}
	return o.batcher.ExtendBatch(ctx, reqs)
}

func (o *openingAll) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	reqs, err := openEach(reqs, o.complete)
	if err != nil {
		return nil, err
	}
	return o.batcher.CompleteBatch(ctx, reqs)
}

func (o *openingAll) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	reqs, err := openEach(reqs, o.release)
	if err != nil {
		return nil, err
	}
	return o.batcher.ReleaseBatch(ctx, reqs)
}
