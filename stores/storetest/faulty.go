package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Fault is what happens to one call of a [Faulty] store. The zero Fault means no fault.
type Fault uint8

// The faults.
const (
	// LoseRequest: the caller gets [ErrFault]; the store never sees the request.
	LoseRequest Fault = iota + 1
	// LoseReply: the request is applied; the caller gets ErrFault.
	LoseReply
	// Delay: the caller gets ErrFault at once; [Faulty.Deliver] applies the request later, long
	// after its caller has continued.
	Delay
	// Block: the caller waits until its context ends; the store never sees the request.
	Block
	// BlockReply: the request is applied; the caller waits until its context ends.
	BlockReply
)

// ErrFault is the error of a call with a fault. Like the error of a broken connection, it does not
// say whether the call was applied.
var ErrFault = errors.New("storetest: connection reset by a fault")

// Faulty wraps a store and injects the faults that the hook returns. It makes no decisions itself:
// the same hook over the same calls gives the same faults. It implements every optional interface.
// If the inner store lacks one, its calls return errors.ErrUnsupported without calling the hook.
type Faulty struct {
	inner storeapi.Store
	hook  func(op string, call int) Fault

	mu    sync.Mutex // guards what follows
	calls map[string]int
	late  []func() error
}

// NewFaulty wraps inner. It calls the hook once for each call. op is the method in lower case
// (acquire extend complete release lookup issue charge usage list watch sweep keeps forgetanswer
// acquirebatch extendbatch completebatch releasebatch: a batch is one call). call counts the calls
// of that op from 1. The hook may be called concurrently; nil means no faults.
func NewFaulty(inner storeapi.Store, hook func(op string, call int) Fault) *Faulty {
	return &Faulty{inner: inner, hook: hook, calls: map[string]int{}}
}

var (
	_ storeapi.Store       = (*Faulty)(nil)
	_ storeapi.Issuer      = (*Faulty)(nil)
	_ storeapi.Limiter     = (*Faulty)(nil)
	_ storeapi.UsageReader = (*Faulty)(nil)
	_ storeapi.Lister      = (*Faulty)(nil)
	_ storeapi.Notifier    = (*Faulty)(nil)
	_ storeapi.Sweeper     = (*Faulty)(nil)
	_ storeapi.Batcher     = (*Faulty)(nil)
	_ storeapi.Keeper      = (*Faulty)(nil)
	_ storeapi.Sharer      = (*Faulty)(nil)
	_ storeapi.Forgetter   = (*Faulty)(nil)
)

// Deliver applies the delayed requests in order of arrival, and returns the inner store's error for
// each.
func (f *Faulty) Deliver() []error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	errs := make([]error, len(late))
	for i, apply := range late {
		errs[i] = apply()
	}
	return errs
}

// Pending returns the number of delayed requests that wait for [Faulty.Deliver].
func (f *Faulty) Pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.late)
}

// Calls returns how often op was called so far.
func (f *Faulty) Calls(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *Faulty) nextFault(op string) Fault {
	f.mu.Lock()
	f.calls[op]++
	n := f.calls[op]
	f.mu.Unlock()
	if f.hook == nil {
		return 0
	}
	return f.hook(op, n)
}

// callWithFault makes a call with the fault that the hook returns.
func callWithFault[R any](ctx context.Context, f *Faulty, op string, apply func(context.Context) (R, error)) (zero R, err error) {
	switch f.nextFault(op) {
	case LoseRequest:
		return zero, ErrFault
	case LoseReply:
		_, _ = apply(ctx)
		return zero, ErrFault
	case Delay:
		// The caller's context ends with the caller, but the request is still in flight.
		ctx = context.WithoutCancel(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = append(f.late, func() error { _, err := apply(ctx); return err })
		return zero, ErrFault
	case Block:
		<-ctx.Done()
		return zero, ctx.Err()
	case BlockReply:
		_, _ = apply(ctx)
		<-ctx.Done()
		return zero, ctx.Err()
	}
	return apply(ctx)
}

// Acquire implements [storeapi.Store].
func (f *Faulty) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	// A delayed request must not change with the caller's memory.
	req.Fingerprint, req.Binding, req.Finish = bytes.Clone(req.Fingerprint), bytes.Clone(req.Binding), protocol.OwnFinish(req.Finish)
	return callWithFault(ctx, f, "acquire", func(ctx context.Context) (storeapi.Acquired, error) { return f.inner.Acquire(ctx, req) })
}

// Extend implements [storeapi.Store].
func (f *Faulty) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	if req.Progress != nil {
		p := *req.Progress
		p.Body = bytes.Clone(p.Body)
		req.Progress = &p
	}
	_, err := callWithFault(ctx, f, "extend", func(ctx context.Context) (none, error) { return none{}, f.inner.Extend(ctx, req) })
	return err
}

// Complete implements [storeapi.Store].
func (f *Faulty) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	req.Answer.Body = bytes.Clone(req.Answer.Body)
	return callWithFault(ctx, f, "complete", func(ctx context.Context) (storeapi.Record, error) { return f.inner.Complete(ctx, req) })
}

// Release implements [storeapi.Store].
func (f *Faulty) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	_, err := callWithFault(ctx, f, "release", func(ctx context.Context) (none, error) { return none{}, f.inner.Release(ctx, req) })
	return err
}

// Lookup implements [storeapi.Store].
func (f *Faulty) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return callWithFault(ctx, f, "lookup", func(ctx context.Context) (storeapi.Record, error) { return f.inner.Lookup(ctx, key) })
}

// Issue implements [storeapi.Issuer].
func (f *Faulty) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	s, ok := f.inner.(storeapi.Issuer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return callWithFault(ctx, f, "issue", func(ctx context.Context) (storeapi.Status, error) { return s.Issue(ctx, req) })
}

// Charge implements [storeapi.Limiter].
func (f *Faulty) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	s, ok := f.inner.(storeapi.Limiter)
	if !ok {
		return storeapi.Charged{}, errors.ErrUnsupported
	}
	return callWithFault(ctx, f, "charge", func(ctx context.Context) (storeapi.Charged, error) { return s.Charge(ctx, req) })
}

// Usage implements [storeapi.UsageReader].
func (f *Faulty) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	s, ok := f.inner.(storeapi.UsageReader)
	if !ok {
		return storeapi.Usage{}, errors.ErrUnsupported
	}
	return callWithFault(ctx, f, "usage", func(ctx context.Context) (storeapi.Usage, error) { return s.Usage(ctx, req) })
}

// ForgetAnswer implements [storeapi.Forgetter].
func (f *Faulty) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	s, ok := f.inner.(storeapi.Forgetter)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := callWithFault(ctx, f, "forgetanswer", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.ForgetAnswer(ctx, req) })
	return err
}

// List implements [storeapi.Lister].
func (f *Faulty) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	s, ok := f.inner.(storeapi.Lister)
	if !ok {
		return storeapi.Page{}, errors.ErrUnsupported
	}
	return callWithFault(ctx, f, "list", func(ctx context.Context) (storeapi.Page, error) { return s.List(ctx, req) })
}

// Watch implements [storeapi.Notifier]. It calls the hook when it begins.
func (f *Faulty) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	s, ok := f.inner.(storeapi.Notifier)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := callWithFault(ctx, f, "watch", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Watch(ctx, key, changed) })
	return err
}

// Sweep implements [storeapi.Sweeper].
func (f *Faulty) Sweep(ctx context.Context, limit int) (int, error) {
	s, ok := f.inner.(storeapi.Sweeper)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return callWithFault(ctx, f, "sweep", func(ctx context.Context) (int, error) { return s.Sweep(ctx, limit) })
}

type none = struct{}

// Shared implements [storeapi.Sharer]. It never has a fault.
func (f *Faulty) Shared() bool {
	inner, ok := f.inner.(storeapi.Sharer)
	return ok && inner.Shared()
}

// Keeps implements [storeapi.Keeper].
func (f *Faulty) Keeps(ctx context.Context) error {
	s, ok := f.inner.(storeapi.Keeper)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := callWithFault(ctx, f, "keeps", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Keeps(ctx) })
	return err
}
