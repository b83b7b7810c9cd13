package retrysafe

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn at most once per key (under [Reexecute] at least once). Every duplicate gets the first
// answer.
//
// A caller that goes away does not stop work that has begun: the context of fn has the values and
// the deadline of ctx, but not its cancellation. It ends after [Policy].MaxRun, when the lease is
// lost, and when [Engine.Shutdown] stops waiting; fn must return then. With [Attached] it also ends
// when ctx is cancelled. If ctx has ended before fn begins, nothing runs.
//
// The error of fn decides the outcome. Mark it with [NothingDone], [Permanent] or [InDoubt]. Any
// other error puts the key in doubt under Refuse, and releases it under Reexecute. A panic or
// Goexit does the same, and continues up the stack.
//
// Do returns these errors without running fn in this call: [ErrInProgress], [ErrAttemptFailed],
// [ErrInDoubt], [ErrFingerprintMismatch], [ErrPrincipalChanged], [ErrDuplicate],
// [ErrAnswerNotKept], [ErrFailedBefore] (a stored refusal under [Reject], or one whose text was not
// stored), [ErrNotIssued], [ErrTooManyKeys], [ErrInvalidKey], [ErrUnavailable], [ErrClosed], and
// one that wraps errors.ErrUnsupported (the policy has limits, and the store cannot count). A
// duplicate of a refusal gets the stored [*Failure].
//
// [ErrStepsChanged] means that the work has other steps than an earlier attempt of the call; see
// [Step]. [ErrLeaseLost] comes with the value: the work succeeded, but another attempt had taken
// over. An error of fn comes back wrapped, together with ErrInDoubt if it leaves the key in doubt;
// errors.Is and errors.As find it. [Retryable] reports whether a call can be retried.
//
// A mark counts only for the call whose fn returns it. If fn itself calls Do and returns that
// error, it must mark the error again: "nothing was done" in the inner call says nothing about what
// the outer fn did before.
func Do[T any](ctx context.Context, e *Engine, k Key, fn func(context.Context) (T, error), opts ...CallOption) (Result[T], error) {
	return doWithOptions(ctx, e, k, fn, e.doDefaults.withOptions(opts))
}

// Run is like [Do], for work without an answer. It reports whether the outcome is that of an
// earlier call.
func Run(ctx context.Context, e *Engine, k Key, fn func(context.Context) error, opts ...CallOption) (replayed bool, err error) {
	res, err := Do(ctx, e, k, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return res.Replayed, err
}

func doWithOptions[T any](ctx context.Context, e *Engine, k Key, fn func(context.Context) (T, error), o *callOptions) (Result[T], error) {
	if replaysAnswers(o.policy) {
		if err := checkDecodable[T](e.c.codec); err != nil {
			return Result[T]{}, &Error{Op: k.Operation, Err: err}
		}
	}
	key := e.storeKey(k)
	call := e.c.traceCall(&ctx, key)
	var rec Record
	a, err := e.c.beginOrFind(ctx, key, o, &rec)
	if a != nil {
		a.reportBegun(call)
		if o.input != nil {
			if err := a.storeInput(ctx, o.input); err != nil {
				return Result[T]{Attempt: a.number, Fence: a.fence}, err
			}
		}
		return runAttempt(ctx, a, fn)
	}
	call.noteRecord(&rec)
	var res Result[T]
	if err == nil {
		res, err = replayAnswer[T](e.c, &rec, o.policy.Duplicate)
	}
	call.reportEnd(duplicateOutcomeName(err, o.policy.Duplicate), rec.Attempt, err)
	return res, err
}

// runAttempt runs the work of an attempt and finishes the attempt.
func runAttempt[T any](ctx context.Context, a *Attempt, fn func(context.Context) (T, error)) (res Result[T], err error) {
	res.Attempt, res.Fence = a.number, a.fence
	defer func() {
		if !a.Ended() {
			// A panic or Goexit of the work or of a codec is unwinding the stack. It is not
			// recovered here.
			a.finishCrashed(ctx)
		}
	}()
	if steps := a.steps.Load(); steps != nil { // an earlier attempt may have stopped in the middle
		if err = steps.Check(a.policy.Steps); err != nil {
			return res, a.putStepsInDoubt(ctx, err)
		}
	}
	v, err := fn(&a.ctx)

	switch outcomeOf(err, a.policy) {
	case Failed:
		f := failureOf(err)
		return res, errorAfterStoring(&res.Stored, a.Fail(ctx, f), &workError{err: f})
	case NotDone:
		_ = a.Release(ctx, err) // if the release fails, the lease expires
		return res, &workError{err: err, retryable: true}
	case Doubtful:
		err = adviseOnMarks(err)
		_ = a.LeaveInDoubt(ctx, err)
		if a.policy.OnDoubt == Reexecute {
			return res, &workError{err: err, retryable: true}
		}
		return res, a.c.wrapError(a.key, a.number, fmt.Errorf("%w: %w", ErrInDoubt, err), 0)
	}
	answer, encodeErr := encodeForPolicy(a.policy, a.codec, &v)
	res.Value = v
	err = a.Complete(ctx, answer)
	return res, errorAfterStoring(&res.Stored, err, encodeErr)
}

// errorAfterStoring sets *stored to whether err, the error of Complete or Fail, is nil. It returns
// follows if err is nil or ErrUnconfirmed, and otherwise err.
func errorAfterStoring(stored *bool, err, follows error) error {
	*stored = err == nil
	if errors.Is(err, ErrUnconfirmed) {
		return follows // the work is done and the engine goes on storing
	}
	if err != nil {
		return err
	}
	return follows
}

// rejectError returns the error of a duplicate of finished work under Reject.
func (c *core) rejectError(rec *Record) error {
	if rec.State == StateFailed {
		return c.failedBeforeError(rec)
	}
	return c.wrapError(rec.Key, rec.Attempt, ErrDuplicate, 0)
}

// failedBeforeError returns the error for work that was refused for good, with the refusal if it
// was stored. Unlike a duplicate of completed work this is not a success.
func (c *core) failedBeforeError(rec *Record) error {
	err := ErrFailedBefore
	if f, bad := FailureOf(rec.Answer); bad == nil {
		err = fmt.Errorf("%w: %w", ErrFailedBefore, f)
	}
	return c.wrapError(rec.Key, rec.Attempt, err, 0)
}

// duplicateOutcomeName returns the trace's name for how a duplicate was answered.
func duplicateOutcomeName(err error, d Duplicate) string {
	switch {
	case err == nil && d == Succeed:
		return "succeeded"
	case err == nil:
		return "replayed"
	}
	var kept *Failure
	if errors.As(err, &kept) {
		return "replayed"
	}
	return outcomeName(err)
}

// replayAnswer returns the answer of a finished record.
func replayAnswer[T any](c *core, rec *Record, d Duplicate) (res Result[T], err error) {
	res = Result[T]{Replayed: true, Stored: true, Attempt: rec.Attempt, Fence: rec.Fence}
	switch {
	case d == Succeed && rec.State == StateCompleted:
	case rec.State == StateFailed && (!rec.Answer.Kept || rec.Answer.Sealed()):
		err = c.failedBeforeError(rec)
	case rec.Answer.Sealed():
		err = c.wrapError(rec.Key, rec.Attempt, ErrAnswerSealed, 0)
	case !rec.Answer.Kept:
		err = c.wrapError(rec.Key, rec.Attempt, ErrAnswerNotKept, 0)
	case rec.State == StateFailed:
		var f *Failure
		if f, err = FailureOf(rec.Answer); err == nil {
			err = &workError{err: f}
		}
	default:
		res.Value, err = decodeAnswer[T](c.codec, &rec.Answer)
	}
	return res, err
}

// Result is what a call of [Do] returns.
type Result[T any] struct {
	// Value is the answer as its [Codec] decodes it, for the first caller too.
	Value T
	// Replayed says that the work did not run in this call. Value is then the first answer (under
	// [Succeed] the zero value).
	Replayed bool
	// Stored is false if the work succeeded but the store has not confirmed its answer yet, or if
	// the lease was lost.
	Stored  bool
	Attempt int
	Fence   Fence
}
