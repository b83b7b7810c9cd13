package redisstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var _ storeapi.Batcher = (*Store)(nil)

// AcquireBatch implements [storeapi.Batcher] with one round trip for each node, if the client is a
// [redisclient.Pipeliner]. With Replicas it returns errors.ErrUnsupported, as the other batch calls
// do: WAIT covers the writes of one connection.
func (s *Store) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	return sendBatch(ctx, s, reqs, s.acquireCall, func(req *storeapi.AcquireRequest, call redisclient.Call, a answer, err error) (storeapi.Acquired, error) {
		if got, ok := s.finishedDespiteOOM(ctx, req, err); ok {
			return got, nil
		}
		return a.readAcquired(req, call.Args, err)
	})
}

// ExtendBatch implements [storeapi.Batcher].
func (s *Store) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	for i := range reqs {
		if reqs[i].Progress == nil {
			continue
		}
		if err := s.addToIndex(ctx, &reqs[i].Key, reqs[i].Fence); err != nil {
			return nil, err
		}
	}
	return batchErrors(sendBatch(ctx, s, reqs, s.extendCall, func(_ *storeapi.ExtendRequest, _ redisclient.Call, a answer, err error) (struct{}, error) {
		return struct{}{}, a.leaseError(err)
	}))
}

// CompleteBatch implements [storeapi.Batcher].
func (s *Store) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	return sendBatch(ctx, s, reqs, s.completeCall, func(req *storeapi.CompleteRequest, call redisclient.Call, a answer, err error) (storeapi.Record, error) {
		return s.readCompleted(ctx, req, call.Args, a, err)
	})
}

// ReleaseBatch implements [storeapi.Batcher].
func (s *Store) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	return batchErrors(sendBatch(ctx, s, reqs, s.releaseCall, func(_ *storeapi.ReleaseRequest, _ redisclient.Call, a answer, err error) (struct{}, error) {
		return struct{}{}, a.leaseError(err)
	}))
}

// sendBatch sends the calls that prepare returns for the requests, and reads their answers.
func sendBatch[Req, T any](
	ctx context.Context, s *Store, reqs []Req,
	prepare func(*Req) (redisclient.Call, error), read func(*Req, redisclient.Call, answer, error) (T, error),
) ([]storeapi.BatchResult[T], error) {
	client, ok := s.client.(redisclient.Pipeliner)
	if !ok || s.o.Replicas != 0 {
		return nil, errors.ErrUnsupported
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]storeapi.BatchResult[T], len(reqs))
	for _, r := range splitRounds(reqs, results, prepare) {
		for i, reply := range client.EvalMany(ctx, r.calls) {
			at := r.places[i]
			a, err := s.readReply(reply)
			results[at].Value, results[at].Err = read(&reqs[at], r.calls[i], a, err)
		}
	}
	return results, nil
}

// round has calls that are sent at once, and the places of their requests.
type round struct {
	calls  []redisclient.Call
	places []int
}

// splitRounds distributes the calls so that each key is in a round at most once. A client may send
// some calls of a round again (after a slot has moved, or if a server does not know a script), and
// so after others. A call that cannot be sent gets its error at once.
func splitRounds[Req, T any](reqs []Req, results []storeapi.BatchResult[T], prepare func(*Req) (redisclient.Call, error)) (all []round) {
	times := make(map[string]int, len(reqs))
	for i := range reqs {
		call, err := prepare(&reqs[i])
		if err != nil {
			results[i].Err = err
			continue
		}
		n := times[call.Keys[0]]
		times[call.Keys[0]]++
		if n == len(all) {
			all = append(all, round{})
		}
		all[n].calls, all[n].places = append(all[n].calls, call), append(all[n].places, i)
	}
	return all
}

func batchErrors(results []storeapi.BatchResult[struct{}], err error) ([]error, error) {
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.Err
	}
	return errs, nil
}
