package retrysafe

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
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
	call := e.c.traceCall(&ctx, e.storeKey(k))
	a, err := e.claim(ctx, k, e.callOptions(opts), rec)
	if a != nil {
		a.traced(call)
		return a, nil
	}
	call.found(rec)
	call.done(outcome(err), rec.Attempt, err)
	return nil, err
}

// claim returns an attempt, or sets *rec to the finished record, or returns an error and sets *rec
// to the record that was found, if any.
func (e *Engine) claim(ctx context.Context, k Key, o *callOptions, rec *Record) (*Attempt, error) {
	c, key := e.c, e.storeKey(k)
	err := o.err
	if err == nil {
		err = key.Validate()
	}
	if err != nil {
		return nil, &Error{Op: k.Operation, Err: err}
	}
	if !c.enter() {
		return nil, c.wrap(key, 0, ErrClosed, time.Second)
	}
	var a *Attempt
	defer func() { // also if Reconcile panics
		if a == nil {
			c.life.leave()
		}
	}()
	a, err = c.win(ctx, key, o, rec)
	if a == nil && err == nil && o.policy.Duplicate == Reject {
		err = c.rejected(rec)
	}
	return a, err
}

// request returns the AcquireRequest for a key and the options of a call. It has no owner and no
// time limit yet.
func (c *core) request(key storeapi.StoreKey, o *callOptions) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key: key, Fingerprint: o.fingerprint, Binding: c.binding(o.binding), MustBeIssued: o.issued.must,
		Lease: o.policy.Lease, Retention: o.policy.Retention, OnDoubt: o.policy.OnDoubt,
	}
}

// notAfter returns the store's time after which an Acquire that is sent at sent must not be
// applied.
func (c *core) notAfter(ctx context.Context, sent time.Time) time.Time {
	limit := acquireLimit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, end.Sub(sent))
	}
	return c.clock.at(sent).Add(limit)
}

// win acquires the key. If another attempt runs, it waits for that attempt if the policy says so.
func (c *core) win(ctx context.Context, key storeapi.StoreKey, o *callOptions, rec *Record) (*Attempt, error) {
	o, err := c.lasting(ctx, key, o)
	if err != nil {
		return nil, c.wrap(key, 0, err, time.Second)
	}
	_, inside := AttemptFrom(ctx)
	reserved, err := c.quotas.reserve(ctx, c.store, key, o.policy, o.payer(key), inside)
	if err != nil {
		return nil, err
	}
	if err = c.issueSigned(ctx, key, o); err != nil {
		reserved.finish(false)
		return nil, c.wrap(key, 0, err, time.Second)
	}
	req := c.request(key, o)
	var limit waitLimit
	for {
		// Another owner each time, since what is left of an earlier claim is given back by its
		// owner.
		req.Owner = newOwner()
		status, sent, err := c.acquire(ctx, &req, nil, rec, reserved)
		reserved = nil // finished, or passed on to reclaim
		if err != nil {
			return nil, c.wrap(key, 0, err, time.Second)
		}
		switch status {
		case storeapi.StatusAcquired:
			a, err := c.start(ctx, rec, sent, o)
			if a != nil && o.issuedTooLate(rec) {
				c.life.stay() // Release leaves once, and so does claim
				_ = a.Release(ctx, nil)
				return nil, c.wrap(key, 0, ErrNotIssued, 0)
			}
			return a, err
		case storeapi.StatusFinished:
			return nil, nil
		case storeapi.StatusInProgress:
			if finished, err := c.await(ctx, rec, o.policy, &limit); finished || err != nil {
				return nil, err
			}
			// The attempt is in doubt, or another one has taken over. Acquire decides again: of all
			// callers that ask, at most one acquires the key.
		case storeapi.StatusInDoubt:
			if o.policy.Reconcile == nil {
				return nil, c.wrap(key, rec.Attempt, ErrInDoubt, 0)
			}
			v, err := c.reconcileToRun(ctx, rec, o)
			if v.attempt != nil || err != nil {
				return v.attempt, err
			}
		default:
			return nil, c.wrap(key, rec.Attempt, status.Err(), 0)
		}
	}
}

// await waits for the attempt of rec, if the policy says so. It reports whether that attempt has
// finished, and sets *rec to its record then.
func (c *core) await(ctx context.Context, rec *Record, p *Policy, limit *waitLimit) (finished bool, err error) {
	ended, err := c.waiting.wait(ctx, rec, p, limit)
	switch {
	case err != nil:
		return false, err
	case ended.State.Finished():
		*rec = ended
		return true, nil
	case c.life.isClosing():
		return false, c.wrap(rec.Key, 0, ErrClosed, time.Second)
	}
	return false, nil
}

// acquire calls Acquire until the store answers, at most a few times. All tries have the same
// owner, so a lost reply does no harm. An error means that the caller must not run the work. If a
// claim may have been made nevertheless, it is given back in the background. seen is the record
// that IfFence names, if it does. Without an error *found is set to the record of the answer.
//
// A store that fails slowly is asked only twice: the first try may have used a dead connection, and
// after the second the caller has waited long enough.
func (c *core) acquire(ctx context.Context, req *storeapi.AcquireRequest, seen, found *Record, reserved *reservation) (status storeapi.Status, sent time.Time, err error) {
	var unanswered time.Time // the latest NotAfter of a try without an answer
	t := c.patience.turn()
	ctx, cancel := t.within(ctx)
	defer cancel()
	defer func() { t.end(err) }()
	for try := range acquireTries {
		if try > 0 && (t.over() || !pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if err = ctx.Err(); err != nil {
			break
		}
		if !c.clock.known.Load() || errors.Is(err, ErrTooLate) {
			if err = c.readClock(ctx, req.Key); err != nil {
				continue
			}
		}
		sent = time.Now()
		req.NotAfter = c.notAfter(ctx, sent)
		status, err = c.ask(ctx, req, found)
		if err == nil {
			c.clock.learn(found.Now, sent)
			if fresh := began(found, req.Owner); fresh || unanswered.IsZero() {
				reserved.finish(fresh)
			}
			if !unanswered.IsZero() {
				// An earlier try may still be in flight, and may acquire the key when it is free
				// again.
				var ours Fence
				if status == storeapi.StatusAcquired {
					ours = found.Fence
				}
				c.giveBack.reclaim(req, seen, unanswered, ours, reserved)
			}
			return status, sent, nil
		}
		if errors.Is(err, ErrTooLate) {
			c.clock.known.Store(false)
			continue
		}
		if !mayBeApplied(err) {
			break
		}
		if req.NotAfter.After(unanswered) {
			unanswered = req.NotAfter
		}
	}
	if unanswered.IsZero() {
		reserved.finish(false)
	} else {
		c.giveBack.reclaim(req, seen, unanswered, 0, reserved)
	}
	return 0, sent, unavailable(err)
}

// ask calls the store once. Without an error it sets *found.
func (c *core) ask(ctx context.Context, req *storeapi.AcquireRequest, found *Record) (storeapi.Status, error) {
	done := c.trace.store(ctx, "acquire")
	got, err := c.store.Acquire(ctx, *req)
	done.with(err)
	if err == nil {
		*found = got.Record
	}
	return got.Status, err
}
