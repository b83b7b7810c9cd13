package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// AcquireBatch implements [retrysafe.Batcher]. A fault affects the whole batch.
func (f *Faulty) AcquireBatch(ctx context.Context, reqs []retrysafe.AcquireRequest) ([]retrysafe.BatchResult[retrysafe.Acquired], error) {
	reqs = slices.Clone(reqs) // a delayed batch must not change with the caller's memory
	for i := range reqs {
		reqs[i].Fingerprint, reqs[i].Binding = bytes.Clone(reqs[i].Fingerprint), bytes.Clone(reqs[i].Binding)
		reqs[i].Copy = protocol.OwnCopy(reqs[i].Copy)
	}
	return many(ctx, f, "acquirebatch", reqs, retrysafe.Batcher.AcquireBatch)
}

// ExtendBatch implements [retrysafe.Batcher].
func (f *Faulty) ExtendBatch(ctx context.Context, reqs []retrysafe.ExtendRequest) ([]error, error) {
	return many(ctx, f, "extendbatch", slices.Clone(reqs), retrysafe.Batcher.ExtendBatch)
}

// CompleteBatch implements [retrysafe.Batcher].
func (f *Faulty) CompleteBatch(ctx context.Context, reqs []retrysafe.CompleteRequest) ([]retrysafe.BatchResult[retrysafe.Record], error) {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Answer.Body = bytes.Clone(reqs[i].Answer.Body)
	}
	return many(ctx, f, "completebatch", reqs, retrysafe.Batcher.CompleteBatch)
}

// ReleaseBatch implements [retrysafe.Batcher].
func (f *Faulty) ReleaseBatch(ctx context.Context, reqs []retrysafe.ReleaseRequest) ([]error, error) {
	return many(ctx, f, "releasebatch", slices.Clone(reqs), retrysafe.Batcher.ReleaseBatch)
}

func many[Req, Reply any](ctx context.Context, f *Faulty, op string, reqs []Req, call func(retrysafe.Batcher, context.Context, []Req) ([]Reply, error)) ([]Reply, error) {
	s, ok := f.inner.(retrysafe.Batcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return through(ctx, f, op, func(ctx context.Context) ([]Reply, error) { return call(s, ctx, reqs) })
}
