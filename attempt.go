package retrysafe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"sync/atomic"
	"time"
)

// Attempt is one run of the work of a key. It is ended once, by Complete, Fail, Release or Doubt; a
// second ending is [ErrEnded] and changes nothing, so that "defer a.Doubt(ctx, err)" may stand
// behind the others. Heartbeats go on until then. Methods may be called concurrently.
type Attempt struct {
	rt      *runtime
	beat    *heartbeat
	waiting *waitRoom
	quotas  *quotas
	key     StoreKey
	n       int
	fence   Fence
	owner   Owner
	payer   string // whom limits count
	born    int64  // when the record was made, by the store's clock, in microseconds
	policy  *Policy
	codec   Codec
	started time.Time
	// retention is that of the policy, or zero: that of the record.
	retention time.Duration
	// leftover: the record has something that outlives a release.
	outlivesRelease bool
	call            *callTrace

	ctx    attemptContext
	cancel context.CancelCauseFunc
	late   lateContext // of the call that ends it

	steps   atomic.Pointer[stepJournal] // nil until there are any
	noSteps bool                        // it ends the record for another, and runs no steps
	// unattended: no caller is told of its end.
	unattended bool

	ended atomic.Bool // an ending has begun
	lost  atomic.Bool // its context was ended by the engine; see end

	// The rest is the heartbeat's.
	until, beatAt, boundAt time.Time
	extending              bool
	next                   time.Time
	index                  int
}

// deadline ends the attempt's context at the caller's deadline.
func (a *Attempt) deadline(end time.Time) {
	stop := a.cancel
	within, done := context.WithDeadline(a.ctx.Context, end)
	a.ctx.Context = within
	a.cancel = func(cause error) {
		stop(cause) // the cause that counts is the first one
		done()
	}
}

// attemptContext is the attempt's context: its own cancellation, and the attempt among its values.
type attemptContext struct {
	context.Context
	attempt *Attempt
	values  context.Context // of a detached attempt: the caller's context, which gives values alone
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

// AttemptFrom finds the attempt that ctx belongs to: in Do, in a guarded handler, in a consumer.
func AttemptFrom(ctx context.Context) (*Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	return a, ok
}

// Key returns the key.
func (a *Attempt) Key() Key { return a.key.Key }

// KeyFor makes a key for a call that the work makes to another service, so that the call is made
// once however often the work is tried: the same in every attempt of this record, another one for
// another name, for other keys, and for the same key after its record has passed, when the work is
// another piece of work. It is the SHA-256, in hex, of this key, the time of its record's birth and
// the name, and tells nothing of the key to the other service. Give each call of the work a name of
// its own, for example "charge".
func (a *Attempt) KeyFor(name string) string {
	// a key with an attempt is valid
	text, _ := a.key.AppendText([]byte("retrysafe derived key 1\n"))
	text = strconv.AppendInt(append(text, '\n'), a.born, 10)
	sum := sha256.Sum256(append(append(text, '\n'), name...))
	return hex.EncodeToString(sum[:])
}

// Layer is that of the engine's view that began the attempt.
func (a *Attempt) Layer() string { return a.key.Layer }

// N counts the attempts of the record's life, from 1: for people and retry limits.
func (a *Attempt) N() int { return a.n }

// Tries counts the attempts since the record was made or reopened (see [Resolution].Reopen), from
// 1: it is what a limit of tries goes by. Attempts that lapsed count, as those that failed do.
func (a *Attempt) Tries() int {
	b := a.steps.Load()
	if b == nil {
		return a.n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(1, a.n-b.p.Reopened)
}

// Uncount takes n tries out of the count, this one's included where n is that large: for attempts
// that are known to have run nothing, and must not use up a limit. Errors are those of Extend, with
// [ErrUnconfirmed] where the store does not answer.
func (a *Attempt) Uncount(ctx context.Context, n int) error {
	return a.countFrom(ctx, func(from int) int { return min(a.n, from+max(0, n)) })
}

// countFrom changes the attempt behind which tries are counted.
func (a *Attempt) countFrom(ctx context.Context, from func(now int) int) error {
	b := a.journal()
	b.mu.Lock()
	if b.err != nil {
		defer b.mu.Unlock()
		return b.err
	}
	b.p.Reopened = from(b.p.Reopened)
	b.order++
	order := b.order
	b.mu.Unlock()
	return a.save(ctx, b, order)
}

// Fence is the fencing token of this attempt.
func (a *Attempt) Fence() Fence { return a.fence }

// Policy is what the attempt goes by.
func (a *Attempt) Policy() Policy { return *a.policy }

// Context ends when the attempt has ended, when its lease could not be extended in time (cause
// [ErrLeaseLost]; it ends a tenth of the lease before the lease does, whether or not the store
// answered), when MaxRun has passed (cause [ErrBound]), when Shutdown gives up (cause [ErrClosed]),
// and with the caller's context unless the call was [Detached]. While the machine sleeps the
// monotonic clock may stand still: then only the fence protects the resource.
func (a *Attempt) Context() context.Context { return &a.ctx }

// LeaseLeft is how long Context still lives if no Extend is answered from now on; zero once the
// attempt has ended or was lost.
func (a *Attempt) LeaseLeft() time.Duration {
	h := a.beat
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.index < 0 {
		return 0
	}
	return max(time.Until(a.until), 0)
}

// Extend renews the lease now. Heartbeats do that by themselves; it is for work that is about to do
// what cannot be taken back, and wants to be sure that the time for it is its own. [ErrLeaseLost]:
// somebody took over, or the attempt has ended; do not act. [ErrUnavailable]: the store has not
// answered, and nothing is sure.
func (a *Attempt) Extend(ctx context.Context) error {
	err := a.extend(ctx, ExtendRequest{})
	if err == nil && a.lost.Load() {
		// its context has ended: the lease that it has now is for nobody
		err = ErrLeaseLost
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrLeaseLost):
		err = unavailable(err)
	}
	return a.rt.wrap(a.key, a.n, err, 0)
}

// extend makes one Extend call, with more than the lease where more says so.
func (a *Attempt) extend(ctx context.Context, more ExtendRequest) error {
	h := a.beat
	h.mu.Lock()
	live := a.index >= 0
	h.mu.Unlock()
	if !live {
		return ErrLeaseLost
	}
	if err := h.call(ctx, a, time.Now(), more); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.index >= 0 {
		h.moved(a)
	}
	return nil
}

// Ended tells whether the attempt was ended by one of its methods.
func (a *Attempt) Ended() bool { return a.ended.Load() }

// Complete keeps the answer. Once it was called the attempt is never released.
//
// nil: kept, as durable as the store claims. [ErrLeaseLost]: somebody took over; what they do
// counts, do not report success. [ErrUnconfirmed]: the store has not answered within 2 s; the
// engine goes on until MaxRun. ctx gives values only: its end does not stop this.
// [ErrStepsChanged]: an earlier attempt has done a [Step] that this one has not asked for; nothing
// is kept, and the attempt is in doubt.
func (a *Attempt) Complete(ctx context.Context, answer Answer) error {
	if err := answer.unkept(); err != nil {
		return err
	}
	if err := a.changed(ctx, a.unasked()); err != nil {
		return err
	}
	return a.finish(ctx, StateCompleted, answer)
}

// Fail keeps a final refusal; see [Permanent]. Errors are those of Complete.
func (a *Attempt) Fail(ctx context.Context, f *Failure) error {
	answer, err := f.answer()
	if err != nil {
		return err
	}
	return a.finish(ctx, StateFailed, answer)
}

func (a *Attempt) finish(ctx context.Context, state State, answer Answer) error {
	return a.finishWith(ctx, a.completion(state, answer))
}

func (a *Attempt) completion(state State, answer Answer) finishRequest {
	answer = answer.limited(a.policy.MaxAnswer)
	outcome := "executed"
	if state == StateFailed {
		outcome = "failed"
	}
	return finishRequest{outcome: outcome, complete: CompleteRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, State: state, Answer: answer, Retention: a.retention, Quiet: a.policy.Wait <= 0,
	}}
}

// unkept is an error for an answer whose body would be lost in silence.
func (a *Answer) unkept() error {
	if a.Body != nil && !a.Kept && a.Size == 0 { // with a size it says itself that it was too large
		return errors.New("retrysafe: the answer has a body and Kept is false, so that repeats would not get it; set Kept, or leave the body out")
	}
	return nil
}

// limited returns a, or what stands for it where its body is larger than most.
func (a Answer) limited(most int64) Answer {
	if !a.Kept || int64(len(a.Body)) <= most {
		return a
	}
	return Answer{Codec: a.Codec, Size: int64(len(a.Body)), Digest: sha256.Sum256(a.Body)}
}

// Release gives the key back: certainly nothing happened, and the next call runs. why is kept for
// operators; it may be nil.
//
// An attempt whose context the engine has ended is released only where why is marked with
// [NothingDone], and nobody has taken over. Else [ErrLeaseLost], and its lease lapses: work that
// was told to stop may have begun something. [ErrUnconfirmed]: the store has not answered within 2
// s; the engine goes on until MaxRun.
func (a *Attempt) Release(ctx context.Context, why error) error {
	cause := causeNothingDone
	if a.unattended {
		cause = causeUnattended
	}
	return a.finishWith(ctx, finishRequest{outcome: "released", why: why, release: ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, Retention: a.released(), Cause: cause, LastError: text(why),
		Quiet: a.policy.Wait <= 0,
	}})
}

// released is how long the record is kept when it is released; zero: its own retention.
func (a *Attempt) released() time.Duration {
	if a.retention == 0 || a.outlivesRelease || a.steps.Load() != nil {
		return a.retention
	}
	return min(a.retention, a.policy.ReleasedFor)
}

// Doubt says that the work may have happened: under Refuse repeats are told [ErrInDoubt] from now
// on, until somebody resolves it; under Reexecute the next call runs. why is kept for operators;
// one that has a method DoubtCause() string names the record's Cause. Errors are those of Release,
// but a lost attempt is put in doubt too.
func (a *Attempt) Doubt(ctx context.Context, why error) error { return a.doubt(ctx, a.cause(why), why) }

func (a *Attempt) doubt(ctx context.Context, cause string, why error) error {
	err := a.finishWith(ctx, finishRequest{outcome: "doubt", why: why, release: ReleaseRequest{
		Key: a.key, Owner: a.owner, Fence: a.fence, Retention: a.retention, Quiet: a.policy.Wait <= 0,
		InDoubt: true, Cause: cause, LastError: text(why),
	}})
	if !errors.Is(err, ErrEnded) && a.rt.trace.Doubt != nil {
		a.rt.trace.Doubt(ctx, a.Key(), a.n, cause)
	}
	return err
}

// Lapse ends the attempt without a word to the store: heartbeats stop, and the key stays taken
// until the lease has passed. It is for work that may still be going on somewhere although this
// process has given up on it: a release would start a second run beside it.
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

// cause is one word on why an attempt that ended with err is in doubt.
func (a *Attempt) cause(err error) string {
	var named interface{ DoubtCause() string }
	switch {
	case errors.As(err, &named):
		return named.DoubtCause()
	case errors.Is(context.Cause(a.ctx.Context), ErrBound):
		return "bound"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "timeout"
	}
	return "error"
}
