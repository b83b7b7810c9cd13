package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// spy is the inner store of a wrapper under test: it records its last request and gives a prepared
// answer.
type spy struct {
	reply any
	err   error

	op   string
	req  any
	mark any
}

type markKey struct{}

// answerCall answers a call. A wrapper may repeat a call; each time gets the same answer.
func answerCall[R any](ctx context.Context, s *spy, op string, req any) (zero R, _ error) {
	s.op, s.req, s.mark = op, req, ctx.Value(markKey{})
	reply, ok := s.reply.(R)
	if s.err != nil || !ok {
		return zero, s.err
	}
	return reply, nil
}

// claimsNone implements no optional interface.
type claimsNone struct{ *spy }

func (c *claimsNone) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return answerCall[storeapi.Acquired](ctx, c.spy, "Acquire", req)
}

func (c *claimsNone) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	_, err := answerCall[struct{}](ctx, c.spy, "Extend", req)
	return err
}

func (c *claimsNone) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	return answerCall[storeapi.Record](ctx, c.spy, "Complete", req)
}

func (c *claimsNone) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	_, err := answerCall[struct{}](ctx, c.spy, "Release", req)
	return err
}

func (c *claimsNone) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return answerCall[storeapi.Record](ctx, c.spy, "Lookup", key)
}

// claimsAll implements every optional interface.
type claimsAll struct{ claimsNone }

func (c *claimsAll) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	return answerCall[storeapi.Status](ctx, c.spy, "Issue", req)
}

func (c *claimsAll) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	return answerCall[storeapi.Charged](ctx, c.spy, "Charge", req)
}

func (c *claimsAll) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	return answerCall[storeapi.Usage](ctx, c.spy, "Usage", req)
}

func (c *claimsAll) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	return answerCall[storeapi.Page](ctx, c.spy, "List", req)
}

func (c *claimsAll) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	_, err := answerCall[struct{}](ctx, c.spy, "ForgetAnswer", req)
	return err
}

func (c *claimsAll) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	if changed != nil {
		changed()
	}
	_, err := answerCall[struct{}](ctx, c.spy, "Watch", key)
	return err
}

func (c *claimsAll) Sweep(ctx context.Context, limit int) (int, error) {
	return answerCall[int](ctx, c.spy, "Sweep", limit)
}

// Shared returns true.
func (c *claimsAll) Shared() bool { return true }

func (c *claimsAll) Keeps(ctx context.Context) error {
	_, err := answerCall[struct{}](ctx, c.spy, "Keeps", nil)
	return err
}

func (c *claimsAll) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	return answerCall[[]storeapi.BatchResult[storeapi.Acquired]](ctx, c.spy, "AcquireBatch", reqs)
}

func (c *claimsAll) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) ([]error, error) {
	return answerCall[[]error](ctx, c.spy, "ExtendBatch", reqs)
}

func (c *claimsAll) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	return answerCall[[]storeapi.BatchResult[storeapi.Record]](ctx, c.spy, "CompleteBatch", reqs)
}

func (c *claimsAll) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) ([]error, error) {
	return answerCall[[]error](ctx, c.spy, "ReleaseBatch", reqs)
}

// Requests and answers with a value in every field, so that a missing field is noticed.
var (
	sampleKey = storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Tenant: "t", Operation: "o", ID: "i\x00\xff"}}
	sampleOwn = storeapi.Owner{1, 2, 3}
	sampleAt  = time.Date(2026, time.May, 4, 3, 2, 1, 7000, time.UTC)

	sampleAcquire = storeapi.AcquireRequest{
		Key: sampleKey, Owner: sampleOwn, Fingerprint: []byte{1, 2}, Binding: []byte{3}, Lease: time.Second, Retention: time.Hour,
		NotAfter: sampleAt, OnDoubt: storeapi.Reexecute, IfFence: 42, Force: true, MustBeIssued: true,
		Asks: true, Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: sampleAnswer, Cause: "c"},
	}
	sampleExtend   = storeapi.ExtendRequest{Key: sampleKey, Owner: sampleOwn, Fence: 42, Lease: time.Second, Works: true, Progress: &sampleAnswer}
	sampleComplete = storeapi.CompleteRequest{
		Key: sampleKey, Owner: sampleOwn, Fence: 42, State: storeapi.StateFailed, Answer: sampleAnswer, Retention: time.Hour,
	}
	sampleRelease = storeapi.ReleaseRequest{
		Key: sampleKey, Owner: sampleOwn, Fence: 42, Retention: time.Hour, InDoubt: true, Cause: "crash", LastError: "signal: killed",
	}
	sampleIssue  = storeapi.IssueRequest{Key: sampleKey, Owner: sampleOwn, Retention: time.Hour}
	sampleCharge = storeapi.ChargeRequest{
		Namespace: "n", Tenant: "t", Keys: 1, Bytes: 2, For: time.Hour,
		Limits: storeapi.Limits{Live: 3, PerSecond: 0.5, Burst: 4, Bytes: 5},
	}
	sampleForget = storeapi.ForgetRequest{Key: sampleKey, Fence: 42}

	sampleUser  = storeapi.UsageRequest{Namespace: "n", Tenant: "t"}
	sampleUsage = storeapi.Usage{
		Now: sampleAt, Keys: 1, Bytes: 2, Frees: sampleAt.Add(1), Rates: []storeapi.RateUsage{{PerSecond: 0.5, Used: 3, Idle: time.Second}},
	}
	sampleList = storeapi.ListRequest{
		Namespace: "n", Layer: "fn", Tenant: "t", Operation: "o", State: storeapi.StateFailed, InDoubt: true, After: "cursor", Limit: 7,
	}

	sampleAnswer = storeapi.Answer{Codec: "raw", Body: []byte{}, Kept: true, Size: 9, Digest: sha256.Sum256([]byte("x"))}
	sampleRecord = storeapi.Record{
		Key: sampleKey, State: storeapi.StateFailed, Attempt: 3, Fence: 42, Owner: sampleOwn, Asks: true, Earlier: []storeapi.Worked{{Attempt: 2, Fence: 41}}, EarlierCut: true, OnDoubt: storeapi.Reexecute,
		Fingerprint: []byte{1, 2}, Binding: []byte{3}, Issued: true, LeaseLeft: time.Second, DoubtSince: sampleAt.Add(4), Now: sampleAt,
		Created: sampleAt.Add(1), Updated: sampleAt.Add(2), Expires: sampleAt.Add(3), Answer: sampleAnswer, Cause: "crash",
		LastError: "signal: killed",
	}
	// In a batch each call has an answer, or its own error.
	sampleClaims  = []storeapi.AcquireRequest{sampleAcquire, {Key: sampleKey}}
	sampleExtends = []storeapi.ExtendRequest{sampleExtend, {Key: sampleKey}}
	sampleEnds    = []storeapi.CompleteRequest{sampleComplete, {Key: sampleKey}}
	sampleGiven   = []storeapi.ReleaseRequest{sampleRelease, {Key: sampleKey}}
	sampleErrors  = []error{nil, storeapi.ErrLeaseLost}
	sampleClaimed = []storeapi.BatchResult[storeapi.Acquired]{
		{Value: storeapi.Acquired{Status: storeapi.StatusInDoubt, Record: sampleRecord}}, {Err: storeapi.ErrTooLate},
	}
	sampleEnded = []storeapi.BatchResult[storeapi.Record]{{Value: sampleRecord}, {Err: storeapi.ErrLeaseLost}}

	samplePage = storeapi.Page{Records: []storeapi.Record{sampleRecord, {Key: sampleKey}}, Next: "after"}
)

// wrappedCall is one method of a store, with a request and the answer that the wrapper must return.
type wrappedCall struct {
	name       string
	optional   bool
	req, reply any
	call       func(context.Context, storeapi.Store) (any, error)
}

func (w *wrappedCall) setReply(s *spy, err error) { s.reply, s.err = w.reply, err }

var wrapped = []wrappedCall{
	{"Acquire", false, sampleAcquire, storeapi.Acquired{Status: storeapi.StatusInDoubt, Record: sampleRecord}, func(ctx context.Context, s storeapi.Store) (any, error) {
		return s.Acquire(ctx, sampleAcquire)
	}},
	{"Extend", false, sampleExtend, struct{}{}, func(ctx context.Context, s storeapi.Store) (any, error) {
		return struct{}{}, s.Extend(ctx, sampleExtend)
	}},
	{"Complete", false, sampleComplete, sampleRecord, func(ctx context.Context, s storeapi.Store) (any, error) {
		return s.Complete(ctx, sampleComplete)
	}},
	{"Release", false, sampleRelease, struct{}{}, func(ctx context.Context, s storeapi.Store) (any, error) {
		return struct{}{}, s.Release(ctx, sampleRelease)
	}},
	{"Lookup", false, sampleKey, sampleRecord, func(ctx context.Context, s storeapi.Store) (any, error) {
		return s.Lookup(ctx, sampleKey)
	}},
	{"Issue", true, sampleIssue, storeapi.StatusAlreadyIssued, func(ctx context.Context, s storeapi.Store) (any, error) {
		if i, ok := s.(storeapi.Issuer); ok {
			return i.Issue(ctx, sampleIssue)
		}
		return nil, errHidden
	}},
	{"Charge", true, sampleCharge, storeapi.Charged{OK: true, After: time.Minute}, func(ctx context.Context, s storeapi.Store) (any, error) {
		if l, ok := s.(storeapi.Limiter); ok {
			return l.Charge(ctx, sampleCharge)
		}
		return nil, errHidden
	}},
	{"Usage", true, sampleUser, sampleUsage, func(ctx context.Context, s storeapi.Store) (any, error) {
		if r, ok := s.(storeapi.UsageReader); ok {
			return r.Usage(ctx, sampleUser)
		}
		return nil, errHidden
	}},
	{"ForgetAnswer", true, sampleForget, struct{}{}, func(ctx context.Context, s storeapi.Store) (any, error) {
		if f, ok := s.(storeapi.Forgetter); ok {
			return struct{}{}, f.ForgetAnswer(ctx, sampleForget)
		}
		return nil, errHidden
	}},
	{"List", true, sampleList, samplePage, func(ctx context.Context, s storeapi.Store) (any, error) {
		if l, ok := s.(storeapi.Lister); ok {
			return l.List(ctx, sampleList)
		}
		return nil, errHidden
	}},
	{"Watch", true, sampleKey, true, func(ctx context.Context, s storeapi.Store) (any, error) {
		n, ok := s.(storeapi.Notifier)
		if !ok {
			return nil, errHidden
		}
		told := false
		err := n.Watch(ctx, sampleKey, func() { told = true })
		return told, err
	}},
	{"Sweep", true, 7, 5, func(ctx context.Context, s storeapi.Store) (any, error) {
		if w, ok := s.(storeapi.Sweeper); ok {
			return w.Sweep(ctx, 7)
		}
		return nil, errHidden
	}},
	{"Keeps", true, nil, struct{}{}, func(ctx context.Context, s storeapi.Store) (any, error) {
		if k, ok := s.(storeapi.Keeper); ok {
			return struct{}{}, k.Keeps(ctx)
		}
		return nil, errHidden
	}},
	batchCall("AcquireBatch", sampleClaims, sampleClaimed, storeapi.Batcher.AcquireBatch),
	batchCall("ExtendBatch", sampleExtends, sampleErrors, storeapi.Batcher.ExtendBatch),
	batchCall("CompleteBatch", sampleEnds, sampleEnded, storeapi.Batcher.CompleteBatch),
	batchCall("ReleaseBatch", sampleGiven, sampleErrors, storeapi.Batcher.ReleaseBatch),
}

func batchCall[Req, Reply any](name string, reqs []Req, replies []Reply, call func(storeapi.Batcher, context.Context, []Req) ([]Reply, error)) wrappedCall {
	return wrappedCall{name, true, reqs, replies, func(ctx context.Context, s storeapi.Store) (any, error) {
		if b, ok := s.(storeapi.Batcher); ok {
			return call(b, ctx, reqs)
		}
		return nil, errHidden
	}}
}

var errHidden = errors.New("the wrapper hides the method")
