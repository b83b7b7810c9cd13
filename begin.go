package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Begin is for callers that end the attempt themselves (a middleware, a consumer); [Do] is simpler.
//
// Exactly one of the three is not nil. An attempt: run the work with its Context and end it with
// Complete, Fail, Release or Doubt. A record: it is finished, and the record has the answer
// ([Record].Answer.Kept says whether it was kept). An error: neither. Under [Reject] finished work
// is [ErrDuplicate], and what was refused for good [ErrFailedBefore].
func (e *Engine) Begin(ctx context.Context, k Key, opts ...CallOption) (*Attempt, *Record, error) {
	var rec Record
	a, err := e.BeginTo(ctx, k, &rec, opts...)
	if a != nil || err != nil {
		return a, nil, err
	}
	finished := rec // apart, so that rec goes to the heap only here
	return nil, &finished, nil
}

// BeginTo is [Engine.Begin] for callers that have a place for the finished record. Without an
// attempt and an error, rec is it.
func (e *Engine) BeginTo(ctx context.Context, k Key, rec *Record, opts ...CallOption) (*Attempt, error) {
	call := e.traceCall(&ctx, k)
	a, err := e.claim(ctx, k, e.callOptions(opts), rec)
	if a != nil {
		a.call = call
		return a, nil
	}
	call.done(outcome(err), rec.Attempt, err)
	return nil, err
}

const (
	acquireTries = 3
	acquireLimit = 5 * time.Second // the longest that an Acquire may be under way
)

// claim returns an attempt, or sets rec to the finished record, or returns an error (and rec has
// what was found).
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
	defer func() { // also where Reconcile panics
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

// request asks for a key as a call's options say. It has no owner yet, and no limit.
func (c *core) request(key StoreKey, o *callOptions) AcquireRequest {
	return AcquireRequest{
		Key: key, Fingerprint: o.fingerprint, Binding: c.binding(o), MustBeIssued: o.issued.must,
		Lease: o.policy.Lease, Retention: o.policy.Retention, OnDoubt: o.policy.OnDoubt,
	}
}

// notAfter is the store's time after which an Acquire that is sent at some time must not be
// applied.
func (c *core) notAfter(ctx context.Context, sent time.Time) time.Time {
	limit := acquireLimit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, end.Sub(sent))
	}
	return c.clock.at(sent).Add(limit)
}

// win acquires the key, and waits for another's attempt where the policy says so.
func (c *core) win(ctx context.Context, key StoreKey, o *callOptions, rec *Record) (*Attempt, error) {
	o, err := c.lasting(ctx, key, o)
	if err != nil {
		return nil, c.wrap(key, 0, err, time.Second)
	}
	reserved, err := c.reserve(ctx, c.store, key, o)
	if err != nil {
		return nil, err
	}
	if err = c.issueSigned(ctx, key, o); err != nil {
		reserved.settle(false)
		return nil, c.wrap(key, 0, err, time.Second)
	}
	req := c.request(key, o)
	var limit waitLimit
	for {
		// A new owner each time: what is left of an earlier round is given back by its owner.
		req.Owner = newOwner()
		got, sent, err := c.acquire(ctx, &req, reserved)
		reserved = nil // settled, or with reclaim
		if err != nil {
			return nil, c.wrap(key, 0, err, time.Second)
		}
		*rec = got.Record
		switch got.Status {
		case Won:
			a, err := c.start(ctx, rec, sent, o)
			if a != nil && o.issuedTooLate(rec) {
				c.life.stay() // the attempt leaves by itself
				_ = a.Release(ctx, nil)
				return nil, c.wrap(key, 0, ErrNotIssued, 0)
			}
			return a, err
		case Finished:
			return nil, nil
		case StatusInProgress:
			ended, err := c.waiting.wait(ctx, rec, o.policy, &limit)
			switch {
			case err != nil:
				return nil, err
			case ended.State.Finished():
				*rec = ended
				return nil, nil
			case c.life.isClosing():
				return nil, c.wrap(key, 0, ErrClosed, time.Second)
			}
			// In doubt, or taken over: ask again. Acquire decides, and of all that ask at most one
			// wins.
		case StatusInDoubt:
			if o.policy.Reconcile == nil {
				return nil, c.wrap(key, rec.Attempt, ErrInDoubt, 0)
			}
			v, err := c.reconcileToRun(ctx, rec, o)
			if v.attempt != nil || err != nil {
				return v.attempt, err
			}
		default:
			return nil, c.wrap(key, rec.Attempt, got.Err(), 0)
		}
	}
}

// acquire asks until it is answered, a few times. Repeats carry the same owner, so that a lost
// reply does no harm. An error says that the caller must not run; if a claim may have been made all
// the same, it is given back in the background. A store that takes its time to fail is asked twice,
// for the first may have been a connection that was dead; then the caller has waited long enough to
// be told.
func (c *core) acquire(ctx context.Context, req *AcquireRequest, reserved *reservation) (got Acquired, sent time.Time, err error) {
	var unanswered time.Time // the latest NotAfter of a try without an answer
	begun := time.Now()
	for try := range acquireTries {
		if try > 0 && time.Since(begun) >= 2*acquireLimit {
			break
		}
		if try > 0 && !pause(ctx, time.Duration(try*try)*50*time.Millisecond) {
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
		done := c.trace.store(ctx, "acquire")
		got, err = c.store.Acquire(ctx, *req)
		done(err)
		if err == nil {
			c.clock.learn(got.Record.Now, sent)
			if fresh := began(&got.Record, req.Owner); fresh || unanswered.IsZero() {
				reserved.settle(fresh)
			}
			if !unanswered.IsZero() {
				// An earlier try may still be on its way, and win when the key is free again.
				var ours Fence
				if got.Status == Won {
					ours = got.Record.Fence
				}
				c.reclaim(req, unanswered, ours, reserved)
			}
			return got, sent, nil
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
		reserved.settle(false)
	} else {
		c.reclaim(req, unanswered, 0, reserved)
	}
	return Acquired{}, sent, unavailable(err)
}

// readClock sets the estimate of the store's clock by a look at any key.
func (c *core) readClock(ctx context.Context, key StoreKey) error {
	ctx, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	_, err := c.lookup(ctx, key)
	return err
}

// pause returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// afterDoubt tells whether the record that was won may have been in doubt, or failed, before: then
// it goes back to being in doubt. That this attempt did nothing says nothing of the one before.
func afterDoubt(rec *Record, ifFence Fence) bool {
	return ifFence != 0 || rec.OnDoubt == Reexecute && rec.Attempt > 1
}

func (c *core) release(ctx context.Context, req ReleaseRequest) error {
	done := c.trace.store(ctx, "release")
	err := c.store.Release(ctx, req)
	done(err)
	return err
}

// newAttempt makes the attempt of a record that was won. It is not looked after yet.
func newAttempt(ctx context.Context, c *core, rec *Record, sent time.Time, o *callOptions) *Attempt {
	a := &Attempt{
		core: c, key: rec.Key, retention: o.policy.Retention, payer: o.payer(rec.Key), n: rec.Attempt, fence: rec.Fence, owner: rec.Owner, born: rec.Created.UnixMicro(), policy: o.policy, codec: c.codec,
		started: sent,
	}
	parent := ctx
	if o.detached || o.outlives && !o.attached && !o.policy.Attached {
		parent, a.ctx.values = context.Background(), ctx
	}
	a.leftover = rec.Issued || rec.EarlierCut || len(rec.Earlier) > 0
	a.ctx.attempt = a
	a.ctx.Context, a.cancel = context.WithCancelCause(parent)
	if end, ok := ctx.Deadline(); ok && parent != ctx && !o.detached {
		a.deadline(end)
	}
	a.until = sent.Add(o.policy.Lease - o.policy.Lease/10)
	a.beatAt = sent.Add(o.policy.Lease / 3)
	a.boundAt = sent.Add(o.policy.MaxRun)
	if rec.Answer.Codec != "" { // what earlier attempts have done
		a.steps.Store(openBook(&rec.Answer))
	}
	return a
}

// start makes the attempt of a claim that was won at rec and asked for at sent.
func (c *core) start(ctx context.Context, rec *Record, sent time.Time, o *callOptions) (*Attempt, error) {
	a := newAttempt(ctx, c, rec, sent, o)
	// Nothing has run yet: a caller that has gone, or a reply that came after the lease, gives the
	// key back.
	err := ctx.Err()
	if err == nil && !time.Now().Before(a.until) {
		err = fmt.Errorf("%w: its answer came after the lease (%v) had passed", ErrUnavailable, o.policy.Lease)
	}
	if err == nil && !c.beat.add(a) {
		err = ErrClosed
	}
	if err == nil {
		return a, nil
	}
	c.life.stay() // the attempt leaves by itself; the caller of start leaves as well
	if afterDoubt(rec, 0) {
		_ = a.Doubt(ctx, err)
	} else {
		_ = a.Release(ctx, NothingDone(err))
	}
	return nil, c.wrap(rec.Key, rec.Attempt, err, time.Second)
}
