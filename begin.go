package retrysafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Begin acquires a key for a caller that finishes the attempt itself, such as a middleware or a
// consumer. [Do] is simpler.
//
// Exactly one of the three results is not nil:
//
//   - An attempt: run the work with its Context, and finish it with Complete, Fail, Release or
//     LeaveInDoubt.
//   - A record: the key is finished, and the record has the answer. [Record].Answer.Kept reports
//     whether the answer was stored.
//   - An error: neither.
//
// Under [Reject] completed work gets [ErrDuplicate], and work that was refused for good gets
// [ErrFailedBefore].
func (e *Engine) Begin(ctx context.Context, k Key, opts ...CallOption) (*Attempt, *Record, error) {
	var rec Record
	a, err := e.BeginTo(ctx, k, &rec, opts...)
	if a != nil || err != nil {
		return a, nil, err
	}
	finished := rec // a copy, so that rec escapes to the heap only here
	return nil, &finished, nil
}

// BeginTo is like [Engine.Begin], for callers that have a place for the finished record. If the
// attempt and the error are both nil, the key is finished and *rec is its record.
func (e *Engine) BeginTo(ctx context.Context, k Key, rec *Record, opts ...CallOption) (*Attempt, error) {
	key := e.storeKey(k)
	call := e.c.traceCall(&ctx, key)
	a, err := e.c.beginOrFind(ctx, key, e.defaults.withOptions(opts), rec)
	if a != nil {
		a.reportBegun(call)
		return a, nil
	}
	call.noteRecord(rec)
	call.reportEnd(outcomeName(err), rec.Attempt, err)
	return nil, err
}

// beginOrFind returns an attempt, or sets *rec to the finished record, or returns an error and sets
// *rec to the record that was found, if any.
func (c *core) beginOrFind(ctx context.Context, key storeapi.StoreKey, o *callOptions, rec *Record) (a *Attempt, err error) {
	if err = o.err; err == nil {
		err = key.Validate()
	}
	if err != nil {
		return nil, &Error{Op: key.Operation, Err: err}
	}
	if !c.enterCall() {
		return nil, c.wrapError(key, 0, ErrClosed, time.Second)
	}
	defer func() { // also if Reconcile panics
		if a == nil {
			c.life.Leave()
		}
	}()
	a, err = c.acquireKey(ctx, key, o, rec)
	if a == nil && err == nil && o.policy.Duplicate == Reject {
		err = c.rejectError(rec)
	}
	return a, err
}

// acquireKey asks the store for the key. If another attempt runs, it waits for that attempt if the
// policy says so.
func (c *core) acquireKey(ctx context.Context, key storeapi.StoreKey, o *callOptions, rec *Record) (*Attempt, error) {
	var reserved *quota.Reservation
	var err error
	if o.issued.must {
		if o, err = c.extendRetention(ctx, key, o); err != nil {
			return nil, c.wrapError(key, 0, err, time.Second)
		}
	}
	if o.policy.Limits != (Limits{}) {
		if reserved, err = c.reserveKey(ctx, c.store.Inner(), key, o); err != nil {
			return nil, err
		}
	}
	if !o.issued.signedUntil.IsZero() {
		if err = c.issueSigned(ctx, key, o); err != nil {
			reserved.Finish(false)
			return nil, c.wrapError(key, 0, err, time.Second)
		}
	}
	req := c.acquireRequest(key, o)
	var waitsUntil time.Time
	for {
		// Another owner each time, since what is left of an earlier claim is given back by its
		// owner.
		req.Owner = claim.NewOwner()
		status, sent, err := c.claimer.Acquire(ctx, &req, nil, rec, reserved)
		reserved = nil // it is finished, or will be when the claim is given back
		if err != nil {
			return nil, c.wrapError(key, 0, err, time.Second)
		}
		switch status {
		case storeapi.StatusAcquired:
			a, err := c.startAttempt(ctx, rec, sent, o)
			if a != nil && !o.issued.signedUntil.IsZero() && rec.Created.After(o.issued.signedUntil) {
				// The key was issued after its time, by a process that was delayed between reading
				// the clock and calling the store. It may have been used long ago, and its record
				// may have expired.
				a.countBesideCall()
				_ = a.Release(ctx, nil)
				return nil, c.wrapError(key, 0, ErrNotIssued, 0)
			}
			return a, err
		case storeapi.StatusFinished:
			return nil, nil
		case storeapi.StatusInProgress:
			if waitsUntil.IsZero() && o.policy.Wait > 0 {
				waitsUntil = time.Now().Add(o.policy.Wait)
			}
			// Without a time to wait, await returns ErrInProgress at once.
			if finished, err := c.awaitAttempt(ctx, rec, o.policy, waitsUntil); finished || err != nil {
				return nil, err
			}
			// The attempt is in doubt, or another one has taken over. Acquire decides again: of all
			// callers that ask, at most one acquires the key.
		case storeapi.StatusInDoubt:
			if o.policy.Reconcile == nil {
				return nil, c.wrapError(key, rec.Attempt, ErrInDoubt, 0)
			}
			v, err := c.reconcileToRun(ctx, rec, o)
			if v.attempt != nil || err != nil {
				return v.attempt, err
			}
		default:
			return nil, c.wrapError(key, rec.Attempt, status.Err(), 0)
		}
	}
}

// acquireRequest returns the AcquireRequest for a key and the options of a call. It has no owner
// and no time limit yet.
func (c *core) acquireRequest(key storeapi.StoreKey, o *callOptions) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key: key, Fingerprint: o.fingerprint, Binding: c.bindingDigest(o.binding), MustBeIssued: o.issued.must,
		Lease: o.policy.Lease, Retention: o.policy.Retention, OnDoubt: o.policy.OnDoubt,
	}
}

// awaitAttempt waits for the attempt of rec, until end at the latest. It reports whether that
// attempt has finished, and sets *rec to its record then.
func (c *core) awaitAttempt(ctx context.Context, rec *Record, p *Policy, end time.Time) (finished bool, err error) {
	ended, retry, err := c.waitRooms.Wait(ctx, rec, end, p.OnDoubt == Reexecute)
	switch {
	case err != nil:
		return false, c.wrapError(rec.Key, rec.Attempt, err, retry)
	case ended.State.Finished():
		*rec = ended
		return true, nil
	case c.life.IsClosing():
		return false, c.wrapError(rec.Key, 0, ErrClosed, time.Second)
	}
	return false, nil
}
