package retrysafe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/detached"
	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/internal/lease"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/storeapi"
)

// Attempt is one run of the work of a key. Finish it once, with Complete, Fail, Release or
// LeaveInDoubt. A second of these calls returns [ErrEnded] and changes nothing, so "defer
// a.LeaveInDoubt(ctx, err)" is safe together with the others. Heartbeats extend the lease until the
// attempt is finished. Methods may be called concurrently.
type Attempt struct {
	c       *core
	key     storeapi.StoreKey
	n       int
	fence   Fence
	owner   storeapi.Owner
	account string // that limits count, instead of the tenant
	// when the record was created, by the store's clock, in microseconds
	born    int64
	policy  *Policy
	codec   Codec
	started time.Time
	// retention is that of the policy; zero means that of the record.
	retention time.Duration
	// outlivesRelease is set if the record has something that must be kept after a release.
	outlivesRelease bool
	call            *callTrace

	ctx    attemptContext
	cancel context.CancelCauseFunc
	late   detached.Context // of the call that finishes it

	steps   atomic.Pointer[journal.Journal] // nil until it is needed
	noSteps bool                            // it runs no steps, and Complete checks none
	// unattended is set if no caller gets the outcome.
	unattended bool

	ended atomic.Bool // a finishing call has begun
	lost  atomic.Bool // the engine has ended its context; see finishWith
	lease lease.Lease
}

// start returns the attempt for a claim that was sent at sent and acquired rec, and starts its
// heartbeats.
func (c *core) start(ctx context.Context, rec *Record, sent time.Time, o *callOptions) (*Attempt, error) {
	a := newAttempt(ctx, c, rec, sent, o)
	// Nothing has run yet. If the caller has gone, or the reply came after the lease had expired,
	// the key is given back.
	err := ctx.Err()
	if err == nil && a.lease.Expired() {
		err = fmt.Errorf("%w: its answer came after the lease (%v) had passed", ErrUnavailable, o.policy.Lease)
	}
	if err == nil && !c.leases.Add(&a.lease) {
		err = ErrClosed
	}
	if err == nil {
		return a, nil
	}
	c.life.Stay() // the attempt leaves once, and so does the caller of start
	if claim.MayFollowDoubt(rec, 0) {
		_ = a.LeaveInDoubt(ctx, err)
	} else {
		_ = a.Release(ctx, NothingDone(err))
	}
	return nil, c.wrap(rec.Key, rec.Attempt, err, time.Second)
}

// newAttempt returns the attempt for a record that was acquired. It has no heartbeats yet.
func newAttempt(ctx context.Context, c *core, rec *Record, sent time.Time, o *callOptions) *Attempt {
	a := &Attempt{
		c: c, key: rec.Key, retention: o.policy.Retention, account: o.account, n: rec.Attempt, fence: rec.Fence, owner: rec.Owner, born: rec.Created.UnixMicro(), policy: o.policy, codec: c.codec,
		started: sent,
	}
	parent := ctx
	if o.detached || o.outlives && !o.attached && !o.policy.Attached {
		parent, a.ctx.values = context.Background(), ctx
	}
	a.outlivesRelease = rec.Issued || rec.EarlierCut || len(rec.Earlier) > 0
	a.ctx.attempt = a
	a.ctx.Context, a.cancel = context.WithCancelCause(parent)
	if end, ok := ctx.Deadline(); ok && parent != ctx && !o.detached {
		a.deadline(end)
	}
	a.lease.Start(&a.key, a.owner, a.fence, o.policy.Lease, o.policy.MaxRun, sent, &a.ctx, (*leaseHolder)(a))
	if rec.Answer.Codec != "" { // what earlier attempts have done
		a.steps.Store(journal.Open(&rec.Answer))
	}
	return a
}

// leaseHolder is the attempt as the keeper of its lease knows it.
type leaseHolder Attempt

// Lose ends the attempt's context. From now on the attempt is released only if the work itself
// returns NothingDone.
func (h *leaseHolder) Lose(cause error) {
	a := (*Attempt)(h)
	a.lost.Store(true)
	a.cancel(cause)
	if t := a.c.trace.Lost; t != nil && !a.ended.Load() {
		// No report after a finishing call has begun: it may have arrived although its reply has
		// not. The report has its own goroutine, since the lock is held and the function is the
		// user's.
		a.c.life.Go(func() { t(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.n, Err: cause}) })
	}
}

// deadline sets the caller's deadline for the attempt's context.
func (a *Attempt) deadline(end time.Time) {
	stop := a.cancel
	within, done := context.WithDeadline(a.ctx.Context, end)
	a.ctx.Context = within
	a.cancel = func(cause error) {
		stop(cause) // the first cause counts
		done()
	}
}

// reportBegun makes call the trace of the attempt, and reports that its work is about to run.
func (a *Attempt) reportBegun(call *callTrace) {
	if a.call = call; call != nil {
		call.fence = a.fence
	}
	if a.c.trace.Begun != nil {
		a.c.trace.Begun(&a.ctx)
	}
}

// attemptContext is the attempt's context. It has its own cancellation, and the attempt among its
// values.
type attemptContext struct {
	context.Context
	attempt *Attempt
	values  context.Context // of a detached attempt: the caller's context, for its values only
}

type attemptKey struct{}

func (c *attemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	if v := c.Context.Value(key); v != nil || c.values == nil {
		return v
	}
	return c.values.Value(key)
}

// AttemptFrom returns the attempt that ctx belongs to, and reports whether there is one. There is
// one in the work of [Do], in a guarded handler and in a consumer.
func AttemptFrom(ctx context.Context) (*Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	return a, ok
}

// String returns the operation and the number of the attempt. It shows no key, so that printing an
// attempt by mistake discloses nothing.
func (a *Attempt) String() string { return fmt.Sprintf("attempt %d of %s", a.n, a.key.Operation) }

// GoString returns the same as String.
func (a *Attempt) GoString() string { return a.String() }

// LogValue returns the same as String.
func (a *Attempt) LogValue() slog.Value { return slog.StringValue(a.String()) }

// Key returns the key of the attempt.
func (a *Attempt) Key() Key { return a.key.Key }

// KeyHash returns the name of the key for logs; see [Engine.KeyHash].
func (a *Attempt) KeyHash() string { return a.c.keyHash(a.key) }

// KeyFor returns an idempotency key for a call that the work makes to another service, so that this
// call takes effect once however often the work is tried. The key is the same in every attempt of
// this record. It is another one for another name, for another key, and for the same key after its
// record has expired, since the work is then another piece of work.
//
// It is the SHA-256, in hex, of this key, the time when its record was created, and name. It
// discloses nothing of the key to the other service. Give each call that the work makes a name of
// its own, for example "charge".
func (a *Attempt) KeyFor(name string) string {
	// No error is possible: the key of an attempt is valid.
	text, _ := a.key.AppendText([]byte("retrysafe derived key 1\n"))
	text = strconv.AppendInt(append(text, '\n'), a.born, 10)
	sum := sha256.Sum256(append(append(text, '\n'), name...))
	return hex.EncodeToString(sum[:])
}

// Layer returns the layer of the engine's view that began the attempt.
func (a *Attempt) Layer() string { return a.key.Layer }

// Number returns the number of the attempt in the record's life, from 1. It is for people and for
// retry limits.
func (a *Attempt) Number() int { return a.n }

// Tries returns the number of attempts since the record was created or reopened (see
// [Resolution].Reopen), from 1. Use it to limit tries. It counts attempts whose lease expired as
// well as those that failed.
func (a *Attempt) Tries() int {
	b := a.steps.Load()
	if b == nil {
		return a.n
	}
	return max(1, a.n-b.Reopened())
}

// Uncount subtracts n from the number that Tries returns; this attempt is included if n is large
// enough. Use it for attempts that certainly ran nothing and must not use up a limit. Errors are
// those of Extend, and [ErrUnconfirmed] if the store does not answer.
func (a *Attempt) Uncount(ctx context.Context, n int) error {
	return a.countFrom(ctx, func(from int) int { return min(a.n, from+max(0, n)) })
}

// countFrom changes the attempt after which tries are counted.
func (a *Attempt) countFrom(ctx context.Context, from func(now int) int) error {
	b := a.journal()
	order, err := b.CountFrom(from)
	if err != nil {
		return err
	}
	return a.save(ctx, b, order)
}

// Fence returns the fence of this attempt.
func (a *Attempt) Fence() Fence { return a.fence }

// Policy returns the policy of this attempt.
func (a *Attempt) Policy() Policy { return *a.policy }

// Context returns the attempt's context. It ends
//
//   - when the attempt is finished;
//   - when its lease could not be extended in time, with the cause [ErrLeaseLost]: a tenth of the
//     lease before the lease expires, whether or not the store answered;
//   - when MaxRun has passed, with the cause [ErrMaxRun];
//   - when Shutdown stops waiting, with the cause [ErrClosed];
//   - with the caller's context, unless the call was [Detached]. In [Do] without [Attached] it ends
//     at the caller's deadline, but not with the caller's cancellation.
//
// While the machine sleeps the monotonic clock may stand still. Then only the fence protects the
// resource.
func (a *Attempt) Context() context.Context { return &a.ctx }

// LeaseLeft returns how long Context still lives if the store answers no Extend from now on. It is
// zero after the attempt has ended or was lost.
func (a *Attempt) LeaseLeft() time.Duration { return a.c.leases.Left(&a.lease) }

// Extend renews the lease now. Heartbeats do that automatically. Call Extend before work that
// cannot be undone, to be sure that the lease covers it. [ErrLeaseLost] means that another attempt
// has taken over, or this one has ended: do not act. [ErrUnavailable] means that the store has not
// answered, and the lease may or may not be held.
func (a *Attempt) Extend(ctx context.Context) error {
	err := a.c.leases.Extend(ctx, &a.lease, storeapi.ExtendRequest{})
	if err == nil && a.lost.Load() {
		// Its context has ended, so no work uses the renewed lease.
		err = ErrLeaseLost
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrLeaseLost):
		err = storecall.Unavailable(err)
	}
	return a.c.wrap(a.key, a.n, err, 0)
}

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
	return a.finishWith(ctx, a.completion(StateCompleted, answer))
}

var errBodyDropped = errors.New("retrysafe: the answer has a body and Kept is false, so that repeats would not get it; set Kept, or leave the body out")

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
		return a.doubtSteps(ctx, fmt.Errorf("%w: an earlier attempt has done %q, and this one has succeeded without asking for it", ErrStepsChanged, names))
	}
	return nil
}

// Fail stores a final refusal and ends the attempt; see [Permanent]. Errors are those of Complete.
func (a *Attempt) Fail(ctx context.Context, f *Failure) error {
	answer, err := f.answer()
	if err != nil {
		return err
	}
	return a.finishWith(ctx, a.completion(StateFailed, answer))
}

func (a *Attempt) completion(state State, answer Answer) finishRequest {
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
	return a.finishWith(ctx, finishRequest{outcome: "released", why: why, release: storeapi.ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, Retention: a.released(why), Cause: cause, LastError: text(why),
		Quiet: a.policy.Wait <= 0,
	}})
}

// released returns how long the record is kept after a release. Zero means the record's own
// retention.
func (a *Attempt) released(why error) time.Duration {
	mayHaveWorked := a.policy.OnDoubt == Reexecute && !nothingDoneSays(why)
	if a.retention == 0 || a.outlivesRelease || a.steps.Load() != nil || mayHaveWorked {
		return a.retention
	}
	return min(a.retention, a.policy.ReleasedFor)
}

// LeaveInDoubt ends the attempt in doubt: the work may have taken effect. Under Refuse duplicates
// get [ErrInDoubt] from now on, until the key is resolved. Under Reexecute the next call runs. why
// is stored for operators; if it has a method InDoubtCause() string, that returns the record's
// Cause. Errors are those of Release, but an attempt that was lost is put in doubt too.
func (a *Attempt) LeaveInDoubt(ctx context.Context, why error) error {
	return a.doubt(ctx, a.cause(why), why)
}

func (a *Attempt) doubt(ctx context.Context, cause string, why error) error {
	err := a.finishWith(ctx, finishRequest{outcome: "doubt", why: why, release: storeapi.ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, Retention: a.retention, Quiet: a.policy.Wait <= 0,
		InDoubt: true, Cause: cause, LastError: text(why),
	}})
	if !errors.Is(err, ErrEnded) && a.c.trace.InDoubt != nil {
		a.c.trace.InDoubt(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.n, Cause: cause})
	}
	return err
}

// Lapse ends the attempt without a call to the store: heartbeats stop, and the key stays claimed
// until the lease has expired. Use it for work that may continue somewhere although this process
// has given up on it. A release would let a second run start beside it.
func (a *Attempt) Lapse(why error) {
	if a.ended.CompareAndSwap(false, true) {
		a.unregister("doubt", why)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// cause returns one word that says why an attempt that ended with err is in doubt.
func (a *Attempt) cause(err error) string {
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
		err := a.c.wrap(a.key, a.n, ErrLeaseLost, 0)
		a.unregister("lease-lost", errors.Join(e.why, err))
		return err
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
		return a.endAnswered(&e, err)
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
		a.unregister("unconfirmed", errors.Join(e.why, ErrUnconfirmed, err))
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
// ends. The time is MaxRun, but at least one more lease; a release has claim.GiveBackTime if that
// is longer.
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
			return a.endAnswered(e, err)
		}
	}
	err = errors.Join(ErrUnconfirmed, err)
	a.unregister("unconfirmed", errors.Join(e.why, err))
	return err
}

// endAnswered ends an attempt whose finishing call the store has answered with err. The bytes of an
// answer are counted after the store has confirmed it.
func (a *Attempt) endAnswered(e *finishRequest, err error) error {
	if err == nil && e.completes() && a.policy.Limits.Bytes > 0 {
		req := charge(a.key, a.account, a.policy)
		req.Bytes = int64(len(e.complete.Answer.Body))
		a.c.quotas.CountBytes(a.c.store.Inner(), req)
	}
	outcome, why := e.outcome, e.why
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
