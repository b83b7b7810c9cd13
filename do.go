package retrysafe

import (
	"context"
	"errors"
	"fmt"
)

// Result is what a call of Do is told.
type Result[T any] struct {
	Value T
	// Replayed: the work did not run in this call; Value is the first answer (under [Succeed] the
	// zero value).
	Replayed bool
	// Stored is false where the work succeeded but the store has not confirmed its answer yet, or
	// the lease was lost.
	Stored  bool
	Attempt int
	Fence   Fence
}

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
	call := e.traceCall(&ctx, k)
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
		res, err = replay[T](e.c, &rec, o.policy.Duplicate)
	}
	call.done(told(err, o.policy.Duplicate), rec.Attempt, err)
	return res, err
}

// rejected is what a repeat of finished work is told under Reject.
func (c *core) rejected(rec *Record) error {
	if rec.State == StateFailed {
		return c.failedBefore(rec)
	}
	return c.wrap(rec.Key, rec.Attempt, ErrDuplicate, 0)
}

// failedBefore is the error of work that was refused for good, with the refusal where it was kept:
// it is no success, as a duplicate is.
func (c *core) failedBefore(rec *Record) error {
	err := ErrFailedBefore
	if f, bad := FailureOf(rec.Answer); bad == nil {
		err = fmt.Errorf("%w: %w", ErrFailedBefore, f)
	}
	return c.wrap(rec.Key, rec.Attempt, err, 0)
}

// told names what a repeat was told.
func told(err error, d Duplicate) string {
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
	return outcome(err)
}

// replay gives the answer of a finished record.
func replay[T any](c *core, rec *Record, d Duplicate) (res Result[T], err error) {
	res = Result[T]{Replayed: true, Stored: true, Attempt: rec.Attempt, Fence: rec.Fence}
	switch {
	case d == Succeed && rec.State == StateCompleted:
	case rec.State == StateFailed && !rec.Answer.Kept:
		err = c.failedBefore(rec)
	case !rec.Answer.Kept:
		err = c.wrap(rec.Key, rec.Attempt, ErrAnswerNotKept, 0)
	case rec.State == StateFailed:
		var f *Failure
		if f, err = FailureOf(rec.Answer); err == nil {
			err = &settledError{err: f}
		}
	default:
		res.Value, err = decode[T](c.codec, &rec.Answer)
	}
	return res, err
}

var errCrashed = errors.New("the work panicked or ended its goroutine")

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
		return res, a.core.wrap(a.key, a.n, fmt.Errorf("%w: %w", ErrInDoubt, err), 0)
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

// crashed ends an attempt whose work did not return.
func (a *Attempt) crashed(ctx context.Context) {
	if a.policy.OnDoubt == Reexecute {
		_ = a.Release(ctx, errCrashed)
		return
	}
	_ = a.doubt(ctx, "panic", errCrashed)
}

// Operation is work that is declared once: its name, its policy and what it does. The input is the
// fingerprint, so that it cannot be forgotten. It is safe for concurrent use.
type Operation[In, Out any] struct {
	engine  *Engine
	name    string
	work    func(context.Context, In) (Out, error)
	options callOptions

	resumable bool
}

// NewOperation declares an operation; p may be nil. It panics on an empty name and on a policy that
// [Policy.Validate] refuses.
func NewOperation[In, Out any](e *Engine, name string, work func(context.Context, In) (Out, error), p *Policy) *Operation[In, Out] {
	if p == nil {
		p = new(Policy)
	}
	policy := p.Or(*e.defaults.policy)
	o := &Operation[In, Out]{engine: e, name: name, work: work, options: callOptions{policy: &policy}}
	if err := errors.Join(policy.Validate(), Key{Operation: name, ID: "x"}.Validate()); err != nil {
		panic(err)
	}
	return o
}

// Do runs the operation for the key {tenant, name, id}; see the function [Do].
func (o *Operation[In, Out]) Do(ctx context.Context, tenant, id string, in In) (Result[Out], error) {
	opts := o.options
	opts.outlives = true
	opts.fingerprint, opts.err = payloadFingerprint(in)
	if o.resumable && opts.err == nil {
		opts.input, opts.err = inputOf(o.engine.c.codec, &in)
	}
	k := Key{Tenant: tenant, Operation: o.name, ID: id}
	return do(ctx, o.engine, k, func(ctx context.Context) (Out, error) { return o.work(ctx, in) }, &opts)
}
