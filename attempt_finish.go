package retrysafe

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/storeapi"
)

// finishRequest is the one call that finishes an attempt: a completion (State is set) or a release.
type finishRequest struct {
	complete storeapi.CompleteRequest
	release  storeapi.ReleaseRequest
	outcome  string // for the trace
	why      error
}

func (e *finishRequest) completes() bool { return e.complete.State != 0 }

// finishWith sends the call that finishes the attempt. If the store does not answer, it repeats the
// call in the background: an answer that a caller got must reach the record, and what certainly did
// not happen must not become a doubt. The engine never sends another finishing call after it: a
// Release after an unanswered Complete would run the work twice.
//
// An attempt that was lost is released only if the work itself has said that it did nothing. Owner
// and fence make sure that such a release does not touch an attempt that has taken over. The
// default outcome of an error, or that of Classify, says nothing about work that the engine has
// stopped.
func (a *Attempt) finishWith(ctx context.Context, e finishRequest) error {
	if !a.ended.CompareAndSwap(false, true) {
		return a.c.wrap(a.key, a.n, ErrEnded, 0)
	}
	if a.call != nil {
		a.call.cause = e.release.Cause
	}
	if !e.completes() && !e.release.InDoubt && a.lost.Load() && !nothingDoneSays(e.why) {
		a.unregister(e.outcome, e.why)
		return a.c.wrap(a.key, a.n, ErrLeaseLost, 0)
	}
	begun := time.Now()
	return a.afterSend(e, begun, a.sendDetached(ctx, &e, begun))
}

// sendDetached makes the call once, also if ctx has ended. It waits until AckTime after begun.
func (a *Attempt) sendDetached(ctx context.Context, e *finishRequest, begun time.Time) error {
	a.late.Begin(ctx, begun.Add(storecall.AckTime))
	defer a.late.Stop()
	return a.send(&a.late, e)
}

// afterSend handles the first result of a finishing call that was sent at begun.
func (a *Attempt) afterSend(e finishRequest, begun time.Time, err error) error {
	if errors.Is(err, ErrInTransaction) {
		// Certainly not applied: the caller can finish the attempt elsewhere.
		a.ended.Store(false)
		return a.c.wrap(a.key, a.n, err, 0)
	}
	if err == nil || !storecall.MayBeApplied(err) {
		a.count(&e, err)
		return a.answered(e.outcome, e.why, err)
	}
	return a.finishLater(e, begun, err)
}

// finishLater repeats a finishing call that the store has not answered. It waits for an answer
// until AckTime after begun.
func (a *Attempt) finishLater(e finishRequest, begun time.Time, err error) error {
	// The tries outlive this call, and the caller may reuse its buffer.
	e.complete.Answer.Body = bytes.Clone(e.complete.Answer.Body)
	result := make(chan error, 1)
	if !a.c.life.Go(func() { result <- a.sendUntilAnswered(&e) }) {
		a.unregister(e.outcome, e.why)
		return a.unconfirmed(err)
	}
	t := time.NewTimer(storecall.AckTime - time.Since(begun))
	defer t.Stop()
	select {
	case err := <-result:
		if errors.Is(err, ErrUnconfirmed) {
			return a.unconfirmed(err)
		}
		return err
	case <-t.C:
		return a.unconfirmed(err)
	}
}

// send makes the call once.
func (a *Attempt) send(ctx context.Context, e *finishRequest) error {
	if !e.completes() {
		return a.c.store.Release(ctx, &a.ctx, e.release)
	}
	return a.c.store.Complete(ctx, &a.ctx, e.complete)
}

// sendUntilAnswered repeats the call until the store answers, its time has passed or the engine
// ends. The time is MaxRun, but at least one more lease; a release has claim.GiveBackTime if that is
// longer.
func (a *Attempt) sendUntilAnswered(e *finishRequest) error {
	err := ErrUnavailable
	end := a.lease.Bound()
	if least := time.Now().Add(a.policy.Lease); least.After(end) {
		end = least // work that took longer than MaxRun has an answer too
	}
	if long := a.started.Add(claim.GiveBackTime); !e.completes() && !e.release.InDoubt && long.After(end) {
		end = long
	}
	for wait := 25 * time.Millisecond; time.Now().Before(end); wait = min(2*wait, time.Second) {
		if !a.c.life.Sleep(wait/2 + rand.N(wait)) {
			break
		}
		ctx, cancel := context.WithTimeout(a.c.life.Context(), storecall.AckTime)
		err = a.send(ctx, e)
		cancel()
		if err == nil || !storecall.MayBeApplied(err) {
			a.count(e, err)
			return a.answered(e.outcome, e.why, err)
		}
	}
	a.unregister(e.outcome, e.why)
	return errors.Join(ErrUnconfirmed, err)
}

// answered ends an attempt whose finishing call the store has answered.
func (a *Attempt) answered(outcome string, why, err error) error {
	if err != nil {
		err = a.c.wrap(a.key, a.n, err, 0)
		if errors.Is(err, ErrLeaseLost) {
			outcome = "lease-lost"
		}
		why = errors.Join(why, err)
	}
	a.unregister(outcome, why)
	return err
}

// unregister removes the attempt from the engine.
func (a *Attempt) unregister(outcome string, why error) {
	a.c.leases.Remove(&a.lease)
	a.cancel(ErrEnded)
	a.c.waiting.Wake(a.key, a.fence)
	a.call.done(outcome, a.n, why)
	a.c.life.Leave()
}

func (a *Attempt) unconfirmed(err error) error {
	if a.c.trace.Unconfirmed != nil {
		a.c.trace.Unconfirmed(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.n})
	}
	return a.c.wrap(a.key, a.n, errors.Join(ErrUnconfirmed, err), 0)
}

var errCrashed = errors.New("the work panicked or ended its goroutine")

// crashed finishes an attempt whose work did not return.
func (a *Attempt) crashed(ctx context.Context) {
	if a.policy.OnDoubt == Reexecute {
		_ = a.Release(ctx, errCrashed)
		return
	}
	_ = a.doubt(ctx, "panic", errCrashed)
}

// count counts the bytes of an answer, after the store has confirmed it.
func (a *Attempt) count(e *finishRequest, err error) {
	if err == nil && e.completes() {
		req := a.charge
		req.Bytes = int64(len(e.complete.Answer.Body))
		a.c.quotas.CountBytes(a.c.store.Inner(), req)
	}
}
