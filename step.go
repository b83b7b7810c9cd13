package retrysafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// StepOption changes one step.
type StepOption interface{ applyStep(*stepOptions) }

type stepOptions struct{ once bool }

type stepOptionFunc func(*stepOptions)

func (f stepOptionFunc) applyStep(o *stepOptions) { f(o) }

// AtMostOnce is for a step that must not run again if its outcome is unknown, such as a payment.
// The start of the step is stored before it runs. A later attempt that finds the step begun and not
// finished does not run it, and gets [ErrInDoubt], also under [Reexecute]. An error marked with
// [NothingDone] takes the start back. AtMostOnce costs one more store call.
func AtMostOnce() StepOption { return stepOptionFunc(func(o *stepOptions) { o.once = true }) }

// Step runs fn as a recovery point inside the work of a call: the answer of fn is stored with the
// record, under the owner and the fence of the attempt, before Step returns. If a later attempt of
// the same call reaches a step of the same name, it gets that answer and fn does not run again. So
// a retry of a half-done call continues after the last step that was finished.
//
// ctx is the context of the work in [Do], of an [Operation], of a guarded handler or of a consumer,
// or one derived from it. fn gets it, and finds the fence and the attempt with [AttemptFrom]. A
// process can die after the effect of fn and before its answer is stored, so under [Reexecute] a
// step runs at least once; see [AtMostOnce] and [StepTx]. Under [Refuse] a call that crashed is in
// doubt. It continues with its steps after Reconcile or an operator has said that the rest was not
// done.
//
// Do not call Step inside the work of [DoTx] or [StepTx] on the database of the engine: nothing can
// be stored from there ([ErrInTransaction]).
//
// The program fixes the name: 1 to 128 printable bytes, used once in an attempt
// ([ErrStepRepeated]). A loop numbers its steps, and fn itself retries what has to be tried again.
// Steps may run concurrently; a call has at most 128. An attempt that succeeds without having asked
// for a step that was done before has run another program: that is [ErrStepsChanged], and the call
// is in doubt. With [Policy].Steps the change is found before anything runs.
//
// An error of fn is not stored and is returned as it is, so [NothingDone], [Permanent] and
// [InDoubt] mean the same for the call as without steps. A call that is released this way keeps its
// steps, its fingerprint and its binding. The other errors are:
//
//   - [ErrLeaseLost]: another attempt has taken over, so stop; fn may have run.
//   - [ErrUnconfirmed]: fn has run, and the store did not answer while ctx or the lease lasted.
//   - [ErrAnswerNotKept]: an earlier attempt did the step, and its answer was too large. All
//     answers of a call together have 960 KiB.
//   - [ErrNoAttempt], [ErrEnded], [ErrStepRepeated] and [ErrStepsChanged]: nothing ran.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error), opts ...StepOption) (v T, err error) {
	a, found, err := lookUpStep[T](ctx, name)
	if err != nil {
		return v, err
	}
	if found != nil {
		return recallStep[T](a, found)
	}
	var o stepOptions
	for _, opt := range opts {
		opt.applyStep(&o)
	}
	b := a.journal()
	if o.once {
		if err := a.saveJournal(ctx, b, b.PutStep(journal.Step{Name: name})); err != nil {
			b.DropStep(name)
			return v, a.stepError(name, fmt.Errorf("its start is not kept, and it was not run: %w", err))
		}
	}
	if v, err = fn(ctx); err != nil {
		if mark, _ := Marked(err); o.once && mark == NotDone {
			if saveErr := a.saveJournal(ctx, b, b.DropStep(name)); saveErr != nil {
				return v, InDoubt(a.stepError(name, fmt.Errorf("nothing was done, and that is not kept: %w: %w", saveErr, err)))
			}
		}
		return v, err
	}
	answer, encodeErr := a.stepAnswer(encodeShared(a.codec, &v))
	err = a.saveJournal(ctx, b, b.PutStep(journal.Step{Name: name, Finished: true, Answer: answer}))
	if err = errors.Join(err, encodeErr); err != nil {
		return v, a.stepError(name, err)
	}
	return v, nil
}

// lookUpStep returns the attempt of a step, and what earlier attempts have left of the step.
func lookUpStep[T any](ctx context.Context, name string) (*Attempt, *journal.Step, error) {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return nil, nil, &Error{Op: "step " + name, Err: ErrNoAttempt}
	}
	err := journal.CheckName(name)
	switch {
	case err != nil:
	case ctx.Value(stepTxKey{}) != nil:
		err = ErrInTransaction
	case a.Ended():
		err = ErrEnded
	case a.workStopped.Load():
		err = ErrLeaseLost
	default:
		err = errors.Join(context.Cause(ctx), checkDecodable[T](a.codec))
	}
	var found *journal.Step
	if err == nil {
		found, err = a.journal().AskStep(name, a.policy.Steps)
	}
	switch {
	case errors.Is(err, ErrStepsChanged):
		return nil, nil, InDoubt(a.stepError(name, err))
	case err != nil:
		return nil, nil, a.stepError(name, err)
	}
	return a, found, nil
}

// stepAnswer returns an answer as it is stored with its step. It copies the bytes, since each later
// step writes them again and the caller may use its value.
func (a *Attempt) stepAnswer(answer Answer, err error) (Answer, error) {
	answer = limitAnswer(answer, a.policy.MaxAnswer)
	answer.Body = bytes.Clone(answer.Body)
	return answer, err
}

func (a *Attempt) stepError(name string, err error) error {
	return a.c.wrapError(a.key, a.number, fmt.Errorf("step %q: %w", name, err), 0)
}

// recallStep returns the answer of a step that an earlier attempt has done.
func recallStep[T any](a *Attempt, s *journal.Step) (v T, err error) {
	switch {
	case !s.Finished:
		return v, InDoubt(a.stepError(s.Name, fmt.Errorf("%w: it was begun and may be run at most once", ErrInDoubt)))
	case !s.Answer.Kept:
		return v, InDoubt(a.stepError(s.Name, ErrAnswerNotKept))
	}
	answer := s.Answer
	// The value may be these bytes, and the caller may change them.
	answer.Body = bytes.Clone(answer.Body)
	if v, err = decodeAnswer[T](a.codec, &answer); err != nil {
		return v, InDoubt(a.stepError(s.Name, err))
	}
	return v, nil
}

// putStepsInDoubt puts the attempt in doubt, since its steps are not those of earlier attempts, as
// err says. It returns the error for the caller.
func (a *Attempt) putStepsInDoubt(ctx context.Context, err error) error {
	if doubtErr := a.putInDoubt(ctx, "steps-changed", err); errors.Is(doubtErr, ErrEnded) {
		return doubtErr
	}
	if a.policy.OnDoubt == Refuse {
		err = fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return a.c.wrapError(a.key, a.number, err, 0)
}

type stepTxKey struct{}

// journal returns the journal of the attempt, and creates it when it is first needed.
func (a *Attempt) journal() *journal.Journal {
	if b := a.steps.Load(); b != nil {
		return b
	}
	a.steps.CompareAndSwap(nil, journal.Open(&Answer{}))
	return a.steps.Load()
}

// lockJournal waits for the right to write. It waits as long as the lease lasts, since the caller
// may have done something already.
func (a *Attempt) lockJournal(b *journal.Journal) error {
	if !b.Lock(a.LeaseLeft) {
		return a.endedErrorOr(ErrLeaseLost)
	}
	return nil
}

// saveJournal returns when the store has the journal as it was at order. It writes everything that
// is in the journal by then, so steps that end at the same time cost one call.
func (a *Attempt) saveJournal(ctx context.Context, b *journal.Journal, order int64) error {
	if err := a.lockJournal(b); err != nil {
		return err
	}
	defer b.Unlock()
	progress, order, err := b.Unsaved(order)
	if progress == nil || err != nil {
		return err
	}
	if err := a.extendUntilAnswered(ctx, storeapi.ExtendRequest{Progress: progress}); err != nil {
		return err
	}
	b.Saved(order)
	return nil
}

// extendUntilAnswered stores progress, or that the work begins. It tries until the store has
// answered or the lease has expired: what has happened must reach the record. After ctx has ended,
// it tries no longer than a finishing call would.
func (a *Attempt) extendUntilAnswered(ctx context.Context, what storeapi.ExtendRequest) (err error) {
	begun := time.Now()
	for wait := 25 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), storecall.AckTime)
		extendErr := a.c.leases.Extend(try, &a.lease, what)
		cancel()
		if errors.Is(extendErr, ErrLeaseLost) {
			return a.endedErrorOr(errors.Join(extendErr, err))
		}
		if extendErr == nil || !storecall.MayBeApplied(extendErr) {
			return extendErr
		}
		err = extendErr
		if ctx.Err() != nil && time.Since(begun) >= storecall.AckTime || !a.c.life.Sleep(wait) {
			return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
		}
	}
}

// endedErrorOr returns why nothing can be stored any more: ErrEnded if the attempt has ended,
// otherwise err.
func (a *Attempt) endedErrorOr(err error) error {
	if a.Ended() {
		return ErrEnded
	}
	return err
}

// storeInput stores the input in the record, unless it is there. If that fails, nothing has run and
// the attempt is released.
func (a *Attempt) storeInput(ctx context.Context, input *Answer) error {
	b := a.journal()
	order, needed := b.PutInput(input, a.policy.Steps)
	if !needed {
		return nil
	}
	err := a.saveJournal(ctx, b, order)
	if err == nil {
		return nil
	}
	_ = a.Release(ctx, NothingDone(err))
	if !errors.Is(err, ErrLeaseLost) {
		err = storecall.Unavailable(err)
	}
	return a.c.wrapError(a.key, a.number, fmt.Errorf("the input was not kept: %w", err), 0)
}

// Progress returns what the call of the attempt has done so far, in this attempt and earlier ones.
// Its bytes belong to the engine: do not change them.
func (a *Attempt) Progress() (Progress, error) {
	b := a.steps.Load()
	if b == nil {
		return Progress{}, nil
	}
	p, err := b.Progress()
	return progressOf(p), err
}

// StepTx is [Step] with the effect and its recovery point in one database transaction. Either both
// are there or neither, whatever dies, so the step takes effect exactly once, under [Reexecute]
// too. db is the engine's own store, since the record is there.
//
// fn gets the transaction and must do its work in it. It must not commit or roll back, and must not
// call an engine on the same database or another step ([ErrInTransaction]). Other steps of the same
// attempt wait until it has ended. If the database has one writer (SQLite), heartbeats wait too:
// the lease has to be longer than fn takes, or the step is rolled back with [ErrLeaseLost].
//
// Errors are those of Step. With [ErrUnavailable] nothing was committed. With [ErrUnconfirmed] it
// is unknown whether it was, and no other step of this attempt runs.
func StepTx[Tx, T any](ctx context.Context, db storeapi.StepStore[Tx], name string, fn func(context.Context, Tx) (T, error)) (v T, err error) {
	a, found, err := lookUpStep[T](ctx, name)
	if err != nil {
		return v, err
	}
	if found != nil {
		return recallStep[T](a, found)
	}
	b := a.journal()
	if err := a.lockJournal(b); err != nil {
		return v, a.stepError(name, err)
	}
	defer b.Unlock()
	step, order := journal.Step{Name: name, Finished: true}, int64(0)
	var workErr, encodeErr error
	req := storeapi.StepRequest{Key: a.key, Owner: a.owner, Fence: a.fence, Lease: a.policy.Lease}
	err = db.StepTx(context.WithValue(ctx, stepTxKey{}, true), req, func(ctx context.Context, tx Tx) (Answer, error) {
		if v, workErr = fn(ctx, tx); workErr != nil {
			return Answer{}, workErr
		}
		step.Answer, encodeErr = a.stepAnswer(encodeShared(a.codec, &v))
		var progress *Answer
		progress, order, workErr = b.Propose(&step)
		if workErr != nil {
			return Answer{}, workErr
		}
		return *progress, nil
	})
	b.Decide(&step, order, err == nil)
	switch {
	case err == nil:
		if encodeErr != nil {
			return v, a.stepError(name, encodeErr)
		}
		return v, nil
	case workErr != nil && !errors.Is(err, ErrTxEnded), errors.Is(err, ErrCommitRefused):
		return v, err
	case errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrTxEnded):
		b.Fail(err)
		return v, InDoubt(a.stepError(name, err))
	case errors.Is(err, ErrLeaseLost):
		return v, a.stepError(name, err)
	}
	return v, a.stepError(name, txError(err))
}

// Progress is what a call has done so far, as its record stores it until the call has ended. It is
// for lists, for [Policy].Reconcile, and for an operator who resolves a key in doubt by hand.
type Progress struct {
	// Plan is the [Policy].Steps of the attempt that stored it; nil if that declared none.
	Plan []string
	// Input is the input of a resumable operation, in the engine's codec. Its Codec is empty if
	// none is stored.
	Input Answer
	// Steps are the steps that were finished, in the order in which they were, and those under
	// [AtMostOnce] that were begun.
	Steps []StepRecord
	// Reopened is the number of the attempt that last reopened the record (see
	// [Resolution].Reopen). [Attempt.Tries] counts from the next one. Zero means none.
	Reopened int
}

// StepRecord is one step of a half-done call.
type StepRecord struct {
	Name string
	// Finished is false for a step under [AtMostOnce] that was begun and whose outcome is unknown.
	Finished bool
	// Answer is what the step returned. It is not stored if all answers together were too large.
	Answer Answer
}

// ProgressOf returns what the call of a record has done so far, if it has not ended. It returns the
// zero Progress if nothing is stored, and for a finished record. Records from lists do not have it:
// look the record up. The returned bytes are parts of the record's.
func ProgressOf(r *Record) (Progress, error) {
	if r.State.Finished() || r.Answer.Codec == "" {
		return Progress{}, nil
	}
	p, err := journal.Parse(&r.Answer)
	return progressOf(p), err
}

// progressOf returns the progress of a journal.
func progressOf(p journal.Progress) Progress {
	own := Progress{Plan: p.Plan, Input: p.Input, Reopened: p.Reopened}
	for _, s := range p.Steps {
		own.Steps = append(own.Steps, StepRecord(s))
	}
	return own
}
