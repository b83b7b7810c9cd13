package retrysafe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Ended reports whether one of the attempt's methods has ended it.
func (a *Attempt) Ended() bool { return a.ended.Load() }

// Complete stores the answer and ends the attempt. After a call of Complete the engine never
// releases the attempt. ctx gives values only: its end does not stop the call.
//
// Complete returns nil if the answer is stored, as durably as the store promises. Otherwise the
// error is one of these:
//
//   - [ErrLeaseLost]: another attempt has taken over, and its outcome counts. Do not report
//     success.
//   - [ErrUnconfirmed]: the store has not answered within 2 s. The engine goes on trying until
//     MaxRun.
//   - [ErrStepsChanged]: an earlier attempt has done a [Step] that this one has not asked for. The
//     answer is not stored, and the attempt is in doubt.
func (a *Attempt) Complete(ctx context.Context, answer Answer) error {
	if err := a.checkCompletion(ctx, &answer); err != nil {
		return err
	}
	return a.finish(ctx, a.completionRequest(StateCompleted, answer))
}

var errBodyDropped = errors.New("retrysafe: the answer has a body and Kept is false, so that duplicates would not get it; set Kept, or leave the body out")

// checkCompletion returns an error if the body of the answer would be dropped silently. It puts the
// attempt in doubt, and returns an error, if the attempt did not ask for a step of an earlier one.
func (a *Attempt) checkCompletion(ctx context.Context, answer *Answer) error {
	if answer.Body != nil && !answer.Kept && answer.Size == 0 {
		// a size says that the answer was too large
		return errBodyDropped
	}
	steps := a.steps.Load()
	if steps == nil || a.noSteps {
		return nil
	}
	if names := steps.Unasked(); len(names) > 0 { // it may have done them again
		return a.putStepsInDoubt(ctx, fmt.Errorf("%w: an earlier attempt has done %q, and this one has succeeded without asking for it", ErrStepsChanged, names))
	}
	return nil
}

// Fail stores a final refusal and ends the attempt; see [Permanent]. Errors are those of Complete.
func (a *Attempt) Fail(ctx context.Context, f *Failure) error {
	answer, err := f.storedAnswer()
	if err != nil {
		return err
	}
	return a.finish(ctx, a.completionRequest(StateFailed, answer))
}

func (a *Attempt) completionRequest(state State, answer Answer) finishRequest {
	answer = a.c.answerToStore(&a.ctx, answer, a.policy)
	outcome := "executed"
	if state == StateFailed {
		outcome = "failed"
	}
	return finishRequest{outcome: outcome, complete: storeapi.CompleteRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, State: state, Answer: answer, Retention: a.retention, Quiet: a.policy.Wait <= 0,
	}}
}

// answerToStore returns the answer as it is stored: within the limit, and with what names the call
// of ctx in a trace.
func (c *core) answerToStore(ctx context.Context, answer Answer, p *Policy) Answer {
	answer = limitAnswer(answer, p.MaxAnswer)
	if c.trace.Origin != nil {
		answer = withOrigin(answer, c.trace.Origin(ctx))
	}
	return answer
}

// limitAnswer returns a, or a description of it without the body if the body is larger than most.
func limitAnswer(a Answer, most int64) Answer {
	if !a.Kept || int64(len(a.Body)) <= most {
		return a
	}
	return Answer{Codec: a.Codec, Size: int64(len(a.Body)), Digest: sha256.Sum256(a.Body)}
}

// Release gives the key back: certainly nothing happened, and the next call runs. why is stored for
// operators; it may be nil.
//
// If the engine has ended the attempt's context, the attempt is released only if why is marked with
// [NothingDone] and no other attempt has taken over. Otherwise Release returns [ErrLeaseLost] and
// the lease expires, since the work may have begun something before the engine stopped it.
// [ErrUnconfirmed] means that the store has not answered within 2 s; the engine goes on trying for
// an hour, or until MaxRun if that is later.
func (a *Attempt) Release(ctx context.Context, why error) error {
	cause := causeNothingDone
	if a.unattended {
		cause = causeUnattended
	}
	return a.finish(ctx, finishRequest{outcome: "released", why: why, release: storeapi.ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, Retention: a.releasedRetention(why), Cause: cause, LastError: errorText(why),
		Quiet: a.policy.Wait <= 0,
	}})
}

// releasedRetention returns how long the record is kept after a release. Zero means the record's
// own retention.
func (a *Attempt) releasedRetention(why error) time.Duration {
	mayHaveWorked := a.policy.OnDoubt == Reexecute && !saysNothingDone(why)
	if a.retention == 0 || a.outlivesRelease || a.steps.Load() != nil || mayHaveWorked {
		return a.retention
	}
	return min(a.retention, a.policy.ReleasedFor)
}

// LeaveInDoubt ends the attempt in doubt: the work may have taken effect. Under Refuse duplicates
// get [ErrInDoubt] from now on, until the key is resolved. Under Reexecute the next call runs. why
// is stored for operators; if it has a method InDoubtCause() string, that returns the record's
// Cause. Errors are those of Release, but an attempt whose work the engine has stopped is put in
// doubt too.
func (a *Attempt) LeaveInDoubt(ctx context.Context, why error) error {
	return a.putInDoubt(ctx, a.doubtCause(why), why)
}

func (a *Attempt) putInDoubt(ctx context.Context, cause string, why error) error {
	err := a.finish(ctx, finishRequest{outcome: "doubt", why: why, release: storeapi.ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, Retention: a.retention, Quiet: a.policy.Wait <= 0,
		InDoubt: true, Cause: cause, LastError: errorText(why),
	}})
	if !errors.Is(err, ErrEnded) && a.c.trace.InDoubt != nil {
		a.c.trace.InDoubt(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.number, Cause: cause})
	}
	return err
}

// Lapse ends the attempt without a call to the store: heartbeats stop, and the key stays claimed
// until the lease has expired. Use it for work that may continue somewhere although this process
// has given up on it. A release would let a second run start beside it.
func (a *Attempt) Lapse(why error) {
	if a.ended.CompareAndSwap(false, true) {
		a.removeFromEngine("doubt", why)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// doubtCause returns one word that says why an attempt that ended with err is in doubt.
func (a *Attempt) doubtCause(err error) string {
	var named interface{ InDoubtCause() string }
	switch {
	case errors.As(err, &named):
		return named.InDoubtCause()
	case errors.Is(context.Cause(a.ctx.Context), ErrMaxRun):
		return "bound"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "timeout"
	}
	return "error"
}

// finishRequest is the one call that finishes an attempt: a completion (State is set) or a release.
type finishRequest struct {
	complete storeapi.CompleteRequest
	release  storeapi.ReleaseRequest
	outcome  string // for the trace
	why      error
}

func (e *finishRequest) isCompletion() bool { return e.complete.State != 0 }

// finish sends the call that finishes the attempt. If the store does not answer, it repeats the
// call in the background: an answer that a caller got must reach the record, and what certainly did
// not happen must not become a doubt. The engine never sends another finishing call after it: a
// Release after an unanswered Complete would run the work twice.
//
// An attempt whose work the engine has stopped is released only if the work itself has said that it
// did nothing. Owner and fence make sure that such a release does not touch an attempt that has
// taken over. The default outcome of an error, or that of Classify, says nothing about work that
// the engine has stopped.
func (a *Attempt) finish(ctx context.Context, e finishRequest) error {
	if !a.ended.CompareAndSwap(false, true) {
		return a.c.wrapError(a.key, a.number, ErrEnded, 0)
	}
	if a.call != nil {
		a.call.cause = e.release.Cause
	}
	if !e.isCompletion() && !e.release.InDoubt && a.workStopped.Load() && !saysNothingDone(e.why) {
		err := a.c.wrapError(a.key, a.number, ErrLeaseLost, 0)
		a.removeFromEngine("lease-lost", errors.Join(e.why, err))
		return err
	}
	begun := time.Now()
	return a.handleFirstReply(e, begun, a.sendDetached(ctx, &e, begun))
}

// sendDetached makes the call once, also if ctx has ended. It waits until AckTime after begun.
func (a *Attempt) sendDetached(ctx context.Context, e *finishRequest, begun time.Time) error {
	a.finishContext.Begin(ctx, begun.Add(storecall.AckTime))
	defer a.finishContext.Stop()
	return a.sendFinish(&a.finishContext, e)
}

// handleFirstReply handles the first result of a finishing call that was sent at begun.
func (a *Attempt) handleFirstReply(e finishRequest, begun time.Time, err error) error {
	if errors.Is(err, ErrInTransaction) {
		// Certainly not applied: the caller can finish the attempt elsewhere.
		a.ended.Store(false)
		return a.c.wrapError(a.key, a.number, err, 0)
	}
	if err == nil || !storecall.MayBeApplied(err) {
		return a.endWithReply(&e, err)
	}
	return a.repeatInBackground(e, begun, err)
}

// repeatInBackground repeats a finishing call that the store has not answered. It waits for an
// answer until AckTime after begun.
func (a *Attempt) repeatInBackground(e finishRequest, begun time.Time, err error) error {
	// The tries outlive this call, and the caller may reuse its buffer.
	e.complete.Answer.Body = bytes.Clone(e.complete.Answer.Body)
	result := make(chan error, 1)
	if !a.c.life.Go(func() { result <- a.repeatUntilAnswered(&e) }) {
		a.removeFromEngine("unconfirmed", errors.Join(e.why, ErrUnconfirmed, err))
		return a.reportUnconfirmed(err)
	}
	t := time.NewTimer(storecall.AckTime - time.Since(begun))
	defer t.Stop()
	select {
	case err := <-result:
		if errors.Is(err, ErrUnconfirmed) {
			return a.reportUnconfirmed(err)
		}
		return err
	case <-t.C:
		return a.reportUnconfirmed(err)
	}
}

// sendFinish makes the call once.
func (a *Attempt) sendFinish(ctx context.Context, e *finishRequest) error {
	if !e.isCompletion() {
		return a.c.store.Release(ctx, &a.ctx, e.release)
	}
	return a.c.store.Complete(ctx, &a.ctx, e.complete)
}

// repeatUntilAnswered repeats the call until the store answers, its time has passed or the engine
// ends. The time is MaxRun, but at least one more lease; a release has claim.GiveBackTime if that
// is longer.
func (a *Attempt) repeatUntilAnswered(e *finishRequest) error {
	err := ErrUnavailable
	end := a.lease.Bound()
	if least := time.Now().Add(a.policy.Lease); least.After(end) {
		end = least // work that took longer than MaxRun has an answer too
	}
	if long := a.started.Add(claim.GiveBackTime); !e.isCompletion() && !e.release.InDoubt && long.After(end) {
		end = long
	}
	for wait := 25 * time.Millisecond; time.Now().Before(end); wait = min(2*wait, time.Second) {
		if !a.c.life.Sleep(wait/2 + rand.N(wait)) {
			break
		}
		ctx, cancel := context.WithTimeout(a.c.life.Context(), storecall.AckTime)
		err = a.sendFinish(ctx, e)
		cancel()
		if err == nil || !storecall.MayBeApplied(err) {
			return a.endWithReply(e, err)
		}
	}
	err = errors.Join(ErrUnconfirmed, err)
	a.removeFromEngine("unconfirmed", errors.Join(e.why, err))
	return err
}

// endWithReply ends an attempt whose finishing call the store has answered with err. The bytes of
// an answer are counted after the store has confirmed it.
func (a *Attempt) endWithReply(e *finishRequest, err error) error {
	if err == nil && e.isCompletion() && a.policy.Limits.Bytes > 0 {
		req := chargeRequest(a.key, a.account, a.policy)
		req.Bytes = int64(len(e.complete.Answer.Body))
		a.c.quotas.CountBytes(a.c.store.Inner(), req)
	}
	outcome, why := e.outcome, e.why
	if err != nil {
		err = a.c.wrapError(a.key, a.number, err, 0)
		if errors.Is(err, ErrLeaseLost) {
			outcome = "lease-lost"
		}
		why = errors.Join(why, err)
	}
	a.removeFromEngine(outcome, why)
	return err
}

// removeFromEngine removes the attempt from the engine.
func (a *Attempt) removeFromEngine(outcome string, why error) {
	a.c.leases.Remove(&a.lease)
	a.cancel(ErrEnded)
	a.c.waitRooms.Wake(a.key, a.fence)
	a.call.reportEnd(outcome, a.number, why)
	a.c.life.Leave()
}

// countBesideCall counts the attempt beside the call that has begun it, for a call that finishes it
// itself: each leaves the engine once.
func (a *Attempt) countBesideCall() { a.c.life.EnterAgain() }

func (a *Attempt) reportUnconfirmed(err error) error {
	if a.c.trace.Unconfirmed != nil {
		a.c.trace.Unconfirmed(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.number})
	}
	return a.c.wrapError(a.key, a.number, errors.Join(ErrUnconfirmed, err), 0)
}

var errCrashed = errors.New("the work panicked or ended its goroutine")

// finishCrashed finishes an attempt whose work did not return.
func (a *Attempt) finishCrashed(ctx context.Context) {
	if a.policy.OnDoubt == Reexecute {
		_ = a.Release(ctx, errCrashed)
		return
	}
	_ = a.putInDoubt(ctx, "panic", errCrashed)
}
