package retrysafe

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn at most once per key (under [Reexecute] at least once), and gives every repeat the
// first answer.
//
// A caller that has gone does not end what has begun: the context of fn has the values and the
// deadline of ctx, but not its cancellation. It ends after Policy.MaxRun, when the lease is lost,
// and when [Engine.Shutdown] stops waiting; fn must end then. [Attached] takes the cancellation
// along. Where ctx has ended before fn begins, nothing runs.
//
// What its error means is said by [NothingDone], [Permanent] and [InDoubt]; any other error puts
// the key in doubt under Refuse, and releases it under Reexecute. A panic or Goexit does the same,
// and goes on up.
//
// Errors: [ErrInProgress], [ErrAttemptFailed], [ErrInDoubt], [ErrFingerprintMismatch],
// [ErrPrincipalChanged], [ErrDuplicate], [ErrAnswerNotKept], [ErrFailedBefore] (a kept refusal
// under [Reject], or one whose text was not kept), [ErrNotIssued], [ErrTooManyKeys],
// [ErrInvalidKey], [ErrUnavailable], [ErrClosed], and one that wraps errors.ErrUnsupported (limits
// on a store that cannot count) come with nothing run in this call; [*Failure] is the kept refusal.
// [ErrStepsChanged]: the work has other steps than an earlier attempt of the call; see [Step].
// [ErrLeaseLost] comes with the value: the work succeeded, but another attempt had taken over. An
// error of fn comes back wrapped, with ErrInDoubt where it leaves the key in doubt; errors.Is and
// errors.As see through. Use [Retryable] to tell what may be retried. The marks of a call count for
// that call alone: work that calls Do itself and returns its error has to mark it anew, since
// "nothing was done" by the inner call says nothing of what the outer one did before.
func Do[T any](ctx context.Context, e *Engine, k Key, fn func(context.Context) (T, error), opts ...CallOption) (Result[T], error) {
	return do(ctx, e, k, fn, e.ofDo.with(opts))
}

// Run is Do for work without an answer.
func Run(ctx context.Context, e *Engine, k Key, fn func(context.Context) error, opts ...CallOption) (replayed bool, err error) {
	res, err := Do(ctx, e, k, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return res.Replayed, err
}

func do[T any](ctx context.Context, e *Engine, k Key, fn func(context.Context) (T, error), o *callOptions) (Result[T], error) {
	call := e.c.traceCall(&ctx, e.storeKey(k))
	var rec Record
	a, err := e.claim(ctx, k, o, &rec)
	if a != nil {
		a.call = call
		if o.input != nil {
			if err := a.keepInput(ctx, o.input); err != nil {
				return Result[T]{Attempt: a.n, Fence: a.fence}, err
			}
		}
		return execute(ctx, a, fn)
	}
	var res Result[T]
	if err == nil {
		res, err = replay[T](e.c.runtime, &rec, o.policy.Duplicate)
	}
	call.done(duplicateOutcome(err, o.policy.Duplicate), rec.Attempt, err)
	return res, err
}

// execute runs the work of an attempt and ends it.
func execute[T any](ctx context.Context, a *Attempt, fn func(context.Context) (T, error)) (res Result[T], err error) {
	res.Attempt, res.Fence = a.n, a.fence
	defer func() {
		if !a.Ended() {
			// a panic or Goexit, of the work or of a codec, is on its way up; it is not stopped
			a.crashed(ctx)
		}
	}()
	if err = a.changed(ctx, a.planned()); err != nil {
		return res, err
	}
	v, err := fn(&a.ctx)

	switch outcomeOf(err, a.policy) {
	case Failed:
		f := failureOf(err)
		return res, keptOr(&res.Stored, a.Fail(ctx, f), &settledError{err: f})
	case NotDone:
		_ = a.Release(ctx, err) // what cannot be released lapses
		return res, &settledError{err: err, again: true}
	case Doubtful:
		err = advised(err)
		_ = a.Doubt(ctx, err)
		if a.policy.OnDoubt == Reexecute {
			return res, &settledError{err: err, again: true}
		}
		return res, a.rt.wrap(a.key, a.n, fmt.Errorf("%w: %w", ErrInDoubt, err), 0)
	}
	res.Value = v
	answer, encodeErr := encode(a.codec, &v)
	err = a.Complete(ctx, answer)
	return res, keptOr(&res.Stored, err, encodeErr)
}

// keptOr sets stored by the error of an ending, and returns what the caller is told: that another
// took over, or else what follows.
func keptOr(stored *bool, err, follows error) error {
	*stored = err == nil
	if errors.Is(err, ErrUnconfirmed) {
		return follows // the work is done and the engine goes on storing
	}
	if err != nil {
		return err
	}
	return follows
}
