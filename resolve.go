package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Resolve resolves a key that is in doubt. It also accepts a failed key, which NotDone lets run
// again. Resolve acquires the key with a new fence, so a late answer of the old holder gets
// ErrLeaseLost. A completed record is never changed.
//
// The record keeps its retention. Use the layer of the call that made it: e.Layer("http"), "gw" or
// "tx" for those surfaces.
//
// Errors: [ErrNotFound], [ErrFenceChanged], [ErrInProgress] (a live lease, without Force),
// [ErrDuplicate] (completed), [ErrUnavailable], [ErrUnconfirmed] (the resolution may have begun:
// look the record up again).
func (e *Engine) Resolve(ctx context.Context, k Key, r Resolution) error {
	c, key := e.c, e.storeKey(k)
	if err := errors.Join(r.validate(), key.Validate()); err != nil {
		return &Error{Op: k.Operation, Err: err}
	}
	if !c.enterCall() {
		return c.wrapError(key, 0, ErrClosed, 0)
	}
	rec, err := c.store.Lookup(ctx, key)
	if err == nil && rec.State == 0 {
		err = ErrNotFound
	} else if err != nil {
		err = storecall.Unavailable(err)
	}
	if err != nil {
		c.life.Leave()
		return c.wrapError(key, 0, err, 0)
	}
	a, err := e.acquireToResolve(ctx, &rec, r)
	if err != nil {
		c.life.Leave()
		return err
	}
	switch r.Outcome {
	case Done:
		return a.Complete(ctx, r.Answer)
	case Failed:
		return a.Fail(ctx, r.Failure)
	case NotDone:
		if r.Reopen {
			if err := a.setCountFrom(ctx, func(int) int { return a.number }); err != nil {
				_ = a.putInDoubt(ctx, causeResolved, err)
				return c.wrapError(key, a.number, fmt.Errorf("%w: look the record up again before you resolve it: %w", ErrUnconfirmed, err), 0)
			}
		}
		return a.finish(ctx, finishRequest{outcome: "released", release: a.resolutionRelease(r, false)})
	}
	return a.finish(ctx, finishRequest{outcome: "doubt", release: a.resolutionRelease(r, true)})
}

// acquireToResolve acquires the record for an operator.
func (e *Engine) acquireToResolve(ctx context.Context, rec *Record, r Resolution) (*Attempt, error) {
	c, policy := e.c, *e.defaults.policy
	policy.MaxAnswer = MaxStored // an operator's answer is stored whatever the limit of the calls
	policy.Retention = 0         // the record's retention stays
	policy.Limits = Limits{}     // no new key begins
	o := callOptions{policy: &policy, detached: true}
	req := storeapi.AcquireRequest{
		Key: rec.Key, Owner: claim.NewOwner(), Lease: policy.Lease,
		OnDoubt: rec.OnDoubt, IfFence: r.Fence, Force: r.Force, Asks: true,
	}
	var found Record
	status, sent, err := c.claimer.Acquire(ctx, &req, rec, &found, nil)
	if err != nil {
		// The claim may have been applied: then the record has another fence, and goes back to
		// being in doubt.
		return nil, c.wrapError(rec.Key, 0, fmt.Errorf("%w: look the record up again before you resolve it: %w", ErrUnconfirmed, err), 0)
	}
	if status == storeapi.StatusFinished {
		return nil, c.wrapError(rec.Key, found.Attempt, ErrDuplicate, 0)
	}
	if status != storeapi.StatusAcquired {
		return nil, c.wrapError(rec.Key, found.Attempt, status.Err(), 0)
	}
	a := newAttempt(ctx, c, &found, sent, &o)
	a.noSteps = true
	if !c.leases.Add(&a.lease) {
		a.countBesideCall()
		_ = a.LeaveInDoubt(ctx, ErrClosed)
		return nil, c.wrapError(rec.Key, 0, ErrClosed, 0)
	}
	return a, nil
}

func (a *Attempt) resolutionRelease(r Resolution, doubt bool) storeapi.ReleaseRequest {
	return storeapi.ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, InDoubt: doubt, Cause: causeResolved,
		LastError: fmt.Sprintf("resolved by %q at %s", r.By, time.Now().UTC().Format(time.RFC3339)),
	}
}

// Resolution is what an operator, or a program that asked the other side, found out about a key in
// doubt.
type Resolution struct {
	// Fence is the fence of the record that was looked at. If it has changed since, nothing happens
	// ([ErrFenceChanged]).
	Fence Fence
	// Force resolves the key under a live lease too. The holder may still act: only its fence
	// guards the resource.
	Force bool
	// Outcome is the outcome of the work. Done stores Answer (an empty one says that the work was
	// done and its answer is unknown). Failed stores Failure. NotDone lets the next call run.
	// Doubtful leaves the key in doubt. NotDone is safe only if the first run is known to be dead,
	// or if the resource checks the fence: a run that is paused can still act.
	Outcome Outcome
	Answer  Answer
	Failure *Failure
	// Reopen goes with NotDone: [Attempt.Tries] starts at 1 again, for callers that give up after a
	// number of tries. The next call then has to be the same one: the record keeps its fingerprint
	// and binding.
	Reopen bool
	// By names who resolved the key, for the record.
	By string
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
		return errors.New("retrysafe: Resolve: the outcome is Failed and Failure is nil; say how duplicates are answered")
	case r.Outcome == Done && r.Answer.Body != nil && !r.Answer.Kept:
		return errors.New("retrysafe: Resolve: Answer has a body and Kept is false; set Kept, or leave the answer empty if it is unknown")
	case r.Outcome == Done && r.Answer.Kept && r.Answer.Codec == "":
		return errors.New("retrysafe: Resolve: Answer is kept and has no Codec, so that no caller can read it; name the one of the operation, usually \"json\"")
	case r.Outcome == Done && len(r.Answer.Body) > MaxStored:
		return fmt.Errorf("retrysafe: Resolve: the answer has %d bytes, at most %d are kept", len(r.Answer.Body), MaxStored)
	}
	return nil
}
