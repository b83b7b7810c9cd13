package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// AcquireBatch implements [storeapi.Batcher]. A fault affects the whole batch.
func (f *Faulty) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	reqs = slices.Clone(reqs) // a delayed batch must not change with the caller's memory
	for i := range reqs {
		reqs[i].Fingerprint, reqs[i].Binding = bytes.Clone(reqs[i].Fingerprint), bytes.Clone(reqs[i].Binding)
		reqs[i].Finish = protocol.OwnFinish(reqs[i].Finish)
	}
	return callBatchWithFault(ctx, f, "acquirebatch", reqs, storeapi.Batcher.AcquireBatch)
}

// ExtendBatch implements [storeapi.Batcher].
func (f *Faulty) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	return callBatchWithFault(ctx, f, "extendbatch", slices.Clone(reqs), storeapi.Batcher.ExtendBatch)
}

// CompleteBatch implements [storeapi.Batcher].
func (f *Faulty) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Answer.Body = bytes.Clone(reqs[i].Answer.Body)
	}
	return callBatchWithFault(ctx, f, "completebatch", reqs, storeapi.Batcher.CompleteBatch)
}

// ReleaseBatch implements [storeapi.Batcher].
func (f *Faulty) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	return callBatchWithFault(ctx, f, "releasebatch", slices.Clone(reqs), storeapi.Batcher.ReleaseBatch)
}

func callBatchWithFault[Req, Reply any](ctx context.Context, f *Faulty, op string, reqs []Req, call func(storeapi.Batcher, context.Context, []Req) ([]Reply, error)) ([]Reply, error) {
	s, ok := f.inner.(storeapi.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return callWithFault(ctx, f, op, func(ctx context.Context) ([]Reply, error) { return call(s, ctx, reqs) })
}
