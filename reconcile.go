package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// reconcileAfter is how many leases a doubt has to be old before it is asked about: a request that
// was given up may still be on its way, and what it does would come after the answer that nothing
// was done.
const reconcileAfter = 2

var errTooManyWorked = errors.New("more attempts may have worked than the record names; look at the other side and resolve it")

// verdict is what became of asking about a doubt.
type verdict struct {
	attempt *Attempt // nothing was done: the caller may run the work under it
	settled bool     // the record is finished now
}

// reconcile asks the policy's Reconcile about the attempt of rec, whose end nobody knows, under an
// attempt of its own: it is asked by one caller at a time, and the old holder cannot finish any
// more. Neither an attempt nor an error: the store has to be asked again, since the record is
// another one now. The attempt that it returns is in the care of the caller; rec is its record
// then.
func (c *core) reconcile(ctx context.Context, rec *Record, o *callOptions) (v verdict, err error) {
	if wait := tooEarly(rec, o.policy); wait > 0 {
		return v, c.wrap(rec.Key, rec.Attempt, ErrInDoubt, wait)
	}
	if rec.EarlierCut {
		return v, c.wrap(rec.Key, rec.Attempt, fmt.Errorf("%w: %w", ErrInDoubt, errTooManyWorked), 0)
	}
	doubt := *rec
	a, err := c.takeOver(ctx, rec, o, true)
	if a == nil {
		return v, err
	}
	// what was done so far; lists leave it out
	doubt.Answer = rec.Answer
	if worked := doubt.MayHaveWorked(); len(worked) > 0 {
		// the other side has not heard of those who only asked
		last := worked[len(worked)-1]
		doubt.Attempt, doubt.Fence = last.Attempt, last.Fence
	}
	defer func() {
		if !a.Ended() && v.attempt == nil {
			// Reconcile panicked or ended its goroutine, which goes on
			c.life.stay()
			_ = a.Doubt(ctx, errCrashed)
		}
	}()
	res, err := o.policy.Reconcile(a.Context(), doubt)
	res.Fence = a.fence // which it does not use
	if err == nil {
		err = res.validate()
	}
	if err == nil && res.Outcome == NotDone {
		if err = context.Cause(a.Context()); err == nil {
			v.attempt = a
			return v, nil
		}
	}
	c.life.stay() // the attempt leaves by itself, and the caller leaves as well
	if (err != nil || res.Outcome == Doubtful) && doubt.Answer.Codec == progressCodec {
		_ = a.Uncount(ctx, 1) // a question is no try; where this is not answered, it counts
	}
	switch {
	case err != nil:
		_ = a.Doubt(ctx, err)
		return v, c.wrap(rec.Key, rec.Attempt, fmt.Errorf("%w: Reconcile: %w", ErrInDoubt, err), reconcileAfter*o.policy.Lease)
	case res.Outcome == Doubtful:
		_ = a.Doubt(ctx, nil)
		return v, c.wrap(rec.Key, rec.Attempt, ErrInDoubt, reconcileAfter*o.policy.Lease)
	case res.Outcome == Failed:
		err = a.Fail(ctx, res.Failure)
	default:
		a.noSteps = true
		err = a.Complete(ctx, res.Answer)
	}
	if errors.Is(err, ErrLeaseLost) {
		return v, nil // somebody was quicker
	}
	v.settled = err == nil
	return v, err
}

// reconcileToRun is reconcile for a caller that runs the work where nothing was done. The record
// says so before the work begins: if that is not confirmed, nothing runs.
func (c *core) reconcileToRun(ctx context.Context, rec *Record, o *callOptions) (verdict, error) {
	v, err := c.reconcile(ctx, rec, o)
	if v.attempt == nil {
		return v, err
	}
	if err = v.attempt.keep(ctx, ExtendRequest{Works: true}); err == nil {
		return v, nil
	}
	c.life.stay() // the attempt leaves by itself, and the caller leaves as well
	_ = v.attempt.Doubt(ctx, err)
	return verdict{}, c.wrap(rec.Key, rec.Attempt, fmt.Errorf("%w: the store has not confirmed that the work begins: %w", ErrInDoubt, err), reconcileAfter*o.policy.Lease)
}

// tooEarly is how long a doubt is not asked about yet. One that an attempt has told of began then,
// any other when its lease had passed.
func tooEarly(rec *Record, p *Policy) time.Duration {
	began := rec.Updated
	if rec.Cause == "" {
		began = began.Add(p.Lease)
	}
	return began.Add(reconcileAfter * p.Lease).Sub(rec.Now)
}

// take wins a record, as it was seen, to work or only to ask. Neither an attempt nor an error: it
// has changed since.
func (c *core) takeOver(ctx context.Context, rec *Record, o *callOptions, asks bool) (*Attempt, error) {
	req := AcquireRequest{Key: rec.Key, Owner: newOwner(), Lease: o.policy.Lease, OnDoubt: rec.OnDoubt, IfFence: rec.Fence, Asks: asks}
	got, sent, err := c.acquire(ctx, &req, nil)
	switch {
	case err != nil:
		return nil, c.wrap(rec.Key, rec.Attempt, err, time.Second)
	case got.Status != Won:
		return nil, nil //nolint:nilnil // as documented
	}
	*rec = got.Record
	a := newAttempt(ctx, c, rec, sent, o)
	a.retention = 0 // that of the record stays
	if !c.beat.add(a) {
		c.life.stay()
		_ = a.Doubt(ctx, ErrClosed)
		return nil, c.wrap(rec.Key, rec.Attempt, ErrClosed, time.Second)
	}
	return a, nil
}
