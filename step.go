package retrysafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// StepOption changes one step.
type StepOption interface{ applyStep(*stepOptions) }

type stepOptions struct{ once bool }

type stepOptionFunc func(*stepOptions)

func (f stepOptionFunc) applyStep(o *stepOptions) { f(o) }

// AtMostOnce is for a step that must not be run again when nobody knows what became of it, such as
// a payment: its start is kept before it runs, and a later attempt that finds it begun and not
// finished does not run it but is told [ErrInDoubt], also under [Reexecute]. An error marked with
// [NothingDone] takes the start back. It costs one more call of the store.
func AtMostOnce() StepOption { return stepOptionFunc(func(o *stepOptions) { o.once = true }) }

// Step is a recovery point inside the work of a call: its answer is kept with the record, by the
// owner and the fence of the attempt, before Step returns. When a later attempt of the same call
// comes to the same name, it gets that answer, and fn is not run again: a retry of a half-done call
// goes on behind the last step that was finished.
//
// ctx is that of the work in Do, of an [Operation], of a guarded handler or consumer, or one made
// of it; fn gets it, and finds fence and attempt by [AttemptFrom]. Anything that fn does between
// its effect and its return can still be lost with the process, so that under [Reexecute] a step
// runs at least once; see [AtMostOnce] and [StepTx]. Under [Refuse] a call that crashed is in
// doubt, and goes on with its steps once Reconcile or a person has said that the rest was not done.
//
// Do not call it inside of the work of [DoTx] or StepTx on the database of the engine: nothing can
// be kept from there ([ErrInTransaction]).
//
// The name is fixed by the program: 1 to 128 printable bytes, once in an attempt
// ([ErrStepRepeated]; a loop numbers them, and what has to be tried again is tried inside of fn).
// Steps may run beside each other; a call has at most 128. An attempt that succeeds without having
// asked for a step that was done before has run another program: that is [ErrStepsChanged], and the
// call is in doubt. With [Policy].Steps it is found before anything runs.
//
// An error of fn is not kept and comes back as it is, so that [NothingDone], [Permanent] and
// [InDoubt] mean for the call what they mean without steps; a call that is released this way keeps
// its steps, its fingerprint and its binding. [ErrLeaseLost]: somebody took over, so stop; fn may
// have run. [ErrUnconfirmed]: fn has run, and the store did not answer while ctx or the lease
// lasted. [ErrAnswerNotKept]: it was done by an earlier attempt, and its answer was too large; all
// of a call together have 960 KiB. [ErrNoAttempt], [ErrEnded], [ErrStepRepeated] and
// [ErrStepsChanged] come with nothing run.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error), opts ...StepOption) (v T, err error) {
	a, found, err := stepOf(ctx, name)
	if err != nil {
		return v, err
	}
	if found != nil {
		return recall[T](a, found)
	}
	var o stepOptions
	for _, opt := range opts {
		opt.applyStep(&o)
	}
	b := a.journal()
	if o.once {
		if err := a.save(ctx, b, b.put(StepRecord{Name: name})); err != nil {
			b.drop(name)
			return v, a.stepError(name, fmt.Errorf("its start is not kept, and it was not run: %w", err))
		}
	}
	if v, err = fn(ctx); err != nil {
		if mark, _ := Marked(err); o.once && mark == NotDone {
			if lost := a.save(ctx, b, b.drop(name)); lost != nil {
				return v, InDoubt(a.stepError(name, fmt.Errorf("nothing was done, and that is not kept: %w: %w", lost, err)))
			}
		}
		return v, err
	}
	answer, encodeErr := a.stepAnswer(encode(a.codec, &v))
	err = a.save(ctx, b, b.put(StepRecord{Name: name, Finished: true, Answer: answer}))
	if err = errors.Join(err, encodeErr); err != nil {
		return v, a.stepError(name, err)
	}
	return v, nil
}

// stepOf finds the attempt of a step, and what is known of it.
func stepOf(ctx context.Context, name string) (*Attempt, *StepRecord, error) {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return nil, nil, &Error{Op: "step " + name, Err: ErrNoAttempt}
	}
	err := stepName(name)
	switch {
	case err != nil:
	case ctx.Value(insideStepTx{}) != nil:
		err = ErrInTransaction
	case a.Ended():
		err = ErrEnded
	case a.lost.Load():
		err = ErrLeaseLost
	default:
		err = context.Cause(ctx)
	}
	var found *StepRecord
	if err == nil {
		found, err = a.journal().register(name, a.policy.Steps)
	}
	switch {
	case errors.Is(err, ErrStepsChanged):
		return nil, nil, InDoubt(a.stepError(name, err))
	case err != nil:
		return nil, nil, a.stepError(name, err)
	}
	return a, found, nil
}

// stepAnswer is what is kept of an answer. Its bytes are its own: it is written with each later
// step again, and the caller may use its value.
func (a *Attempt) stepAnswer(answer Answer, err error) (Answer, error) {
	answer = answer.limited(a.policy.MaxAnswer)
	answer.Body = bytes.Clone(answer.Body)
	return answer, err
}

func (a *Attempt) stepError(name string, err error) error {
	return a.rt.wrap(a.key, a.n, fmt.Errorf("step %q: %w", name, err), 0)
}

// recall gives the answer of a step that an earlier attempt has done.
func recall[T any](a *Attempt, s *StepRecord) (v T, err error) {
	switch {
	case !s.Finished:
		return v, InDoubt(a.stepError(s.Name, fmt.Errorf("%w: it was begun and may be run at most once", ErrInDoubt)))
	case !s.Answer.Kept:
		return v, InDoubt(a.stepError(s.Name, ErrAnswerNotKept))
	}
	answer := s.Answer
	// the value may be these bytes, and the caller's to change
	answer.Body = bytes.Clone(answer.Body)
	if v, err = decode[T](a.codec, &answer); err != nil {
		return v, InDoubt(a.stepError(s.Name, err))
	}
	return v, nil
}

// changed puts an attempt in doubt whose steps are not those of the attempts before it. It returns
// nil where they fit.
func (a *Attempt) changed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if told := a.doubt(ctx, "steps-changed", err); errors.Is(told, ErrEnded) {
		return told
	}
	if a.policy.OnDoubt == Refuse {
		err = fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return a.rt.wrap(a.key, a.n, err, 0)
}

// planned tells, before the work runs, whether it can go on where an earlier attempt has stopped.
func (a *Attempt) planned() error {
	b := a.steps.Load()
	if b == nil {
		return nil
	}
	return b.check(a.policy.Steps)
}

// unasked tells, of work that has succeeded, whether it has done again what was done before without
// asking.
func (a *Attempt) unasked() error {
	b := a.steps.Load()
	if b == nil || a.noSteps {
		return nil
	}
	if names := b.unrequested(); len(names) > 0 {
		return fmt.Errorf("%w: an earlier attempt has done %q, and this one has succeeded without asking for it", ErrStepsChanged, names)
	}
	return nil
}

type insideStepTx struct{}
