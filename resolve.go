package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Resolution is what a person (or a program that asked the other side) found out about a key in
// doubt.
type Resolution struct {
	// Fence is that of the record that was looked at: if it has changed since, nothing happens
	// ([ErrFenceChanged]).
	Fence Fence
	// Force resolves also under a live lease. The holder may still act: its fence is the only
	// guard.
	Force bool
	// Outcome: Done keeps Answer (an empty one says that it was done and nobody knows the answer),
	// Failed keeps Failure, NotDone lets the next call run, Doubtful leaves it in doubt. NotDone is
	// only safe where the first run is known to be dead, or the resource checks the fence: one that
	// is paused can still act.
	Outcome Outcome
	Answer  Answer
	Failure *Failure
	// Reopen goes with NotDone: [Attempt.Tries] begins with 1 again, for those who give up after so
	// many tries. The next call has to be the same one then: the record keeps its fingerprint and
	// binding.
	Reopen bool
	// By names who resolved, for the record.
	By string
}

// Resolve settles a key that is in doubt (or failed: NotDone lets it run again). It is a win of its
// own: it takes a new fence, and a late answer of the old holder is refused with ErrLeaseLost. A
// completed record is never changed.
//
// The record keeps its retention. Use the layer of the call that made it: e.Layer("http"), "gw" or
// "tx" for those surfaces.
//
// Errors: [ErrNotFound], [ErrFenceChanged], [ErrInProgress] (a live lease, without Force),
// [ErrDuplicate] (completed), [ErrUnavailable], [ErrUnconfirmed] (it may have begun: look the
// record up again).
func (e *Engine) Resolve(ctx context.Context, k Key, r Resolution) error {
	c, key := e.c, e.storeKey(k)
	if err := errors.Join(r.validate(), key.Validate()); err != nil {
		return &Error{Op: k.Operation, Err: err}
	}
	if !c.enter() {
		return c.wrap(key, 0, ErrClosed, 0)
	}
	rec, err := c.lookup(ctx, key)
	if err == nil && rec.State == 0 {
		err = ErrNotFound
	} else if err != nil {
		err = unavailable(err)
	}
	if err != nil {
		c.life.leave()
		return c.wrap(key, 0, err, 0)
	}
	a, err := e.seize(ctx, &rec, r)
	if err != nil {
		c.life.leave()
		return err
	}
	switch r.Outcome {
	case Done:
		return a.Complete(ctx, r.Answer)
	case Failed:
		return a.Fail(ctx, r.Failure)
	case NotDone:
		if r.Reopen {
			if err := a.countFrom(ctx, func(int) int { return a.n }); err != nil {
				_ = a.doubt(ctx, causeResolved, err)
				return c.wrap(key, a.n, fmt.Errorf("%w: look the record up again before you resolve it: %w", ErrUnconfirmed, err), 0)
			}
		}
		return a.end(ctx, ending{outcome: "released", release: a.resolved(r, false)})
	}
	return a.end(ctx, ending{outcome: "doubt", release: a.resolved(r, true)})
}

func (r *Resolution) validate() error {
	switch {
	case r.Fence == 0:
		return errors.New("retrysafe: Resolve: Fence is zero; give the fence of the record that you looked at")
	case r.Outcome < Done || r.Outcome > Doubtful:
		return fmt.Errorf("retrysafe: Resolve: Outcome is %d; use Done, NotDone, Failed or Doubtful", r.Outcome)
	case r.Reopen && r.Outcome != NotDone:
		return errors.New("retrysafe: Resolve: Reopen goes with NotDone")
	case r.Outcome == Failed && r.Failure == nil:
		return errors.New("retrysafe: Resolve: the outcome is Failed and Failure is nil; say what repeats are told")
	case r.Outcome == Done && r.Answer.Body != nil && !r.Answer.Kept:
		return errors.New("retrysafe: Resolve: Answer has a body and Kept is false; set Kept, or leave the answer empty if nobody knows it")
	case r.Outcome == Done && r.Answer.Kept && r.Answer.Codec == "":
		return errors.New("retrysafe: Resolve: Answer is kept and has no Codec, so that nobody can read it; name the one of the operation, \"json\" as a rule")
	case r.Outcome == Done && len(r.Answer.Body) > MaxStored:
		return fmt.Errorf("retrysafe: Resolve: the answer has %d bytes, at most %d are kept", len(r.Answer.Body), MaxStored)
	}
	return nil
}

// seize wins the record for a person.
func (e *Engine) seize(ctx context.Context, rec *Record, r Resolution) (*Attempt, error) {
	c, policy := e.c, *e.defaults.policy
	policy.MaxAnswer = MaxStored // a person's answer is kept whatever the calls' limit
	policy.Retention = 0         // that of the record stays
	policy.Limits = Limits{}     // nothing new begins
	o := callOptions{policy: &policy, detached: true}
	req := AcquireRequest{
		Key: rec.Key, Owner: newOwner(), Lease: policy.Lease,
		OnDoubt: rec.OnDoubt, IfFence: r.Fence, Force: r.Force, Asks: true,
	}
	got, sent, err := c.acquire(ctx, &req, nil)
	if err != nil {
		// It may have begun: then the record has another fence, and goes back to being in doubt.
		return nil, c.wrap(rec.Key, 0, fmt.Errorf("%w: look the record up again before you resolve it: %w", ErrUnconfirmed, err), 0)
	}
	if got.Status == Finished {
		return nil, c.wrap(rec.Key, got.Record.Attempt, ErrDuplicate, 0)
	}
	if got.Status != Won {
		return nil, c.wrap(rec.Key, got.Record.Attempt, got.Err(), 0)
	}
	a := newAttempt(ctx, c, &got.Record, sent, &o)
	a.settles = true
	if !c.beat.add(a) {
		c.life.stay()
		_ = a.Doubt(ctx, ErrClosed)
		return nil, c.wrap(rec.Key, 0, ErrClosed, 0)
	}
	return a, nil
}

func (a *Attempt) resolved(r Resolution, doubt bool) ReleaseRequest {
	return ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, InDoubt: doubt, Cause: causeResolved,
		LastError: fmt.Sprintf("resolved by %q at %s", r.By, time.Now().UTC().Format(time.RFC3339)),
	}
}
