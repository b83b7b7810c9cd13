package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// reconcileAfter is how many leases a key must have been in doubt before Reconcile is called: a
// request that was given up may still be in flight, and would take effect after the answer that
// nothing was done.
const reconcileAfter = 2

var errTooManyWorked = errors.New("more attempts may have worked than the record names; look at the other side and resolve it")

// verdict is the result of reconciling a key in doubt.
type verdict struct {
	attempt  *Attempt // nothing was done: the caller may run the work under it
	finished bool     // the record is finished now
}

// reconcileRecord calls the policy's Reconcile for the attempt of rec, whose outcome is unknown. It
// first acquires an attempt of its own: so one caller at a time asks, and the old holder can no
// longer finish. If it returns neither an attempt nor an error, the record has changed and the
// caller must ask the store again. The caller must finish the attempt that it returns; rec is then
// the record of that attempt.
func (c *core) reconcileRecord(ctx context.Context, rec *Record, o *callOptions) (v verdict, err error) {
	if wait := reconcileWait(rec, o.policy); wait > 0 {
		return v, c.wrapError(rec.Key, rec.Attempt, ErrInDoubt, wait)
	}
	if rec.EarlierCut {
		return v, c.wrapError(rec.Key, rec.Attempt, fmt.Errorf("%w: %w", ErrInDoubt, errTooManyWorked), 0)
	}
	doubt := *rec
	a, err := c.takeOver(ctx, rec, o, true)
	if a == nil {
		return v, err
	}
	// The progress, which lists leave out.
	doubt.Answer = rec.Answer
	if worked := doubt.MayHaveWorked(); len(worked) > 0 {
		// The other side knows nothing of attempts that only asked.
		last := worked[len(worked)-1]
		doubt.Attempt, doubt.Fence = last.Attempt, last.Fence
	}
	defer func() {
		if !a.Ended() && v.attempt == nil {
			// Reconcile panicked or ended its goroutine, and that goes on.
			a.countBesideCall()
			_ = a.LeaveInDoubt(ctx, errCrashed)
		}
	}()
	res, err := o.policy.Reconcile(a.Context(), doubt)
	res.Fence = a.fence // the caller's Fence is not used
	if err == nil {
		err = res.validate()
	}
	if err == nil && res.Outcome == NotDone {
		if err = context.Cause(a.Context()); err == nil {
			v.attempt = a
			return v, nil
		}
	}
	a.countBesideCall()
	if (err != nil || res.Outcome == Doubtful) && doubt.Answer.Codec == journal.Codec {
		_ = a.Uncount(ctx, 1) // asking is not a try; if this is not confirmed, it counts
	}
	switch {
	case err != nil:
		_ = a.LeaveInDoubt(ctx, err)
		return v, c.wrapError(rec.Key, rec.Attempt, fmt.Errorf("%w: Reconcile: %w", ErrInDoubt, err), reconcileAfter*o.policy.Lease)
	case res.Outcome == Doubtful:
		_ = a.LeaveInDoubt(ctx, nil)
		return v, c.wrapError(rec.Key, rec.Attempt, ErrInDoubt, reconcileAfter*o.policy.Lease)
	case res.Outcome == Failed:
		err = a.Fail(ctx, res.Failure)
	default:
		a.noSteps = true
		err = a.Complete(ctx, res.Answer)
	}
	if errors.Is(err, ErrLeaseLost) {
		return v, nil // another caller was quicker
	}
	v.finished = err == nil
	return v, err
}

// reconcileToRun is like reconcile, for a caller that runs the work if nothing was done. The store
// has to confirm that the work begins; otherwise nothing runs.
func (c *core) reconcileToRun(ctx context.Context, rec *Record, o *callOptions) (verdict, error) {
	v, err := c.reconcileRecord(ctx, rec, o)
	if v.attempt == nil {
		return v, err
	}
	if err = v.attempt.extendUntilAnswered(ctx, storeapi.ExtendRequest{Works: true}); err == nil {
		return v, nil
	}
	v.attempt.countBesideCall()
	_ = v.attempt.LeaveInDoubt(ctx, err)
	return verdict{}, c.wrapError(rec.Key, rec.Attempt, fmt.Errorf("%w: the store has not confirmed that the work begins: %w", ErrInDoubt, err), reconcileAfter*o.policy.Lease)
}

// reconcileWait returns how long to wait before Reconcile may be called. The time counts from when
// an attempt reported that it is in doubt, and otherwise from the end of its lease.
func reconcileWait(rec *Record, p *Policy) time.Duration {
	began := rec.Updated
	if rec.Cause == "" {
		began = began.Add(p.Lease)
	}
	return began.Add(reconcileAfter * p.Lease).Sub(rec.Now)
}

// takeOver acquires a record with the fence that was seen, to work or only to ask. If it returns
// neither an attempt nor an error, the record has changed since.
func (c *core) takeOver(ctx context.Context, rec *Record, o *callOptions, asks bool) (*Attempt, error) {
	req := storeapi.AcquireRequest{Key: rec.Key, Owner: claim.NewOwner(), Lease: o.policy.Lease, OnDoubt: rec.OnDoubt, IfFence: rec.Fence, Asks: asks}
	var found Record
	status, sent, err := c.claimer.Acquire(ctx, &req, rec, &found, nil)
	switch {
	case err != nil:
		return nil, c.wrapError(rec.Key, rec.Attempt, err, time.Second)
	case status != storeapi.StatusAcquired:
		return nil, nil //nolint:nilnil // as documented
	}
	before := claim.PriorRelease(&req, rec)
	*rec = found
	a := newAttempt(ctx, c, rec, sent, o)
	a.retention = 0 // the record's retention stays
	if !c.leases.Add(&a.lease) {
		a.countBesideCall()
		if before == nil {
			_ = a.LeaveInDoubt(ctx, ErrClosed)
		} else {
			before.Key, before.Owner, before.Fence = a.key, a.owner, a.fence
			_ = a.finish(ctx, finishRequest{outcome: "released", release: *before})
		}
		return nil, c.wrapError(rec.Key, rec.Attempt, ErrClosed, time.Second)
	}
	return a, nil
}

// ReconcileAll calls [Policy].Reconcile for the keys of an operation that are in doubt, one after
// the other. An empty operation means all operations of the engine's layer. It returns how many
// keys were resolved: completed, failed, or released to the next call. Keys that have not been in
// doubt long enough, or stay in doubt, are left for the next time: run it every few minutes, in any
// number of processes.
//
// Errors: one that wraps errors.ErrUnsupported (the store does not list), [ErrUnreadable] (all
// other records were handled), [ErrUnavailable], [ErrClosed], and the error of ctx.
func (e *Engine) ReconcileAll(ctx context.Context, operation string) (resolved int, err error) {
	return e.reconcileAll(ctx, operation, e.defaults)
}

// ReconcileAll is like [Engine.ReconcileAll], for this operation.
func (o *Operation[In, Out]) ReconcileAll(ctx context.Context) (resolved int, err error) {
	return o.engine.reconcileAll(ctx, o.name, &o.options)
}

func (e *Engine) reconcileAll(ctx context.Context, operation string, o *callOptions) (resolved int, err error) {
	if o.policy.Reconcile == nil {
		return 0, &Error{Op: operation, Err: errNoReconcile}
	}
	lister, ok := e.c.store.Inner().(storeapi.Lister)
	if !ok {
		return 0, &Error{Op: operation, Err: fmt.Errorf("the store does not list records: %w", errors.ErrUnsupported)}
	}
	req := storeapi.ListRequest{Namespace: e.c.namespace, Layer: e.layer, Operation: operation, InDoubt: true}
	var unreadable error
	for {
		page, err := lister.List(ctx, req)
		if err != nil {
			return resolved, &Error{Op: operation, Err: storecall.Unavailable(err), RetryAfter: time.Second}
		}
		for i := range page.Records {
			done, err := e.c.reconcileListed(ctx, &page.Records[i], o)
			if done {
				resolved++
			}
			if err != nil && !errors.Is(err, ErrInDoubt) {
				return resolved, err
			}
		}
		if len(page.Unreadable) > 0 && unreadable == nil {
			unreadable = &Error{Op: operation, Key: e.c.keyHash(page.Unreadable[0].Key), Err: fmt.Errorf("%w: %w", ErrUnreadable, page.Unreadable[0].Err)}
		}
		if req.After = page.Next; page.Next == "" {
			return resolved, errors.Join(ctx.Err(), unreadable)
		}
	}
}

// reconcileListed reconciles one record, if it can.
func (c *core) reconcileListed(ctx context.Context, rec *Record, o *callOptions) (resolved bool, err error) {
	if !c.enterCall() {
		return false, c.wrapError(rec.Key, rec.Attempt, ErrClosed, time.Second)
	}
	var v verdict
	defer func() {
		if v.attempt == nil {
			c.life.Leave()
		}
	}()
	v, err = c.reconcileRecord(ctx, rec, o)
	if v.attempt == nil {
		return v.finished, err
	}
	v.attempt.unattended = true
	err = v.attempt.Release(ctx, nil) // no caller here can run the work: the next call does
	return err == nil, err
}

var errNoReconcile = errors.New("the policy has no Reconcile; set it on the operation or the engine")
