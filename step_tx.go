package retrysafe

import (
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe/storeapi"
)

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
	a, found, err := stepOf[T](ctx, name)
	if err != nil {
		return v, err
	}
	if found != nil {
		return recall[T](a, found)
	}
	b := a.journal()
	if err := a.lockJournal(b); err != nil {
		return v, a.stepError(name, err)
	}
	defer b.unlock()
	step, order := StepRecord{Name: name, Finished: true}, int64(0)
	var workErr, encodeErr error
	req := storeapi.StepRequest{Key: a.key, Owner: a.owner, Fence: a.fence, Lease: a.policy.Lease}
	err = db.StepTx(context.WithValue(ctx, insideStepTx{}, true), req, func(ctx context.Context, tx Tx) (Answer, error) {
		if v, workErr = fn(ctx, tx); workErr != nil {
			return Answer{}, workErr
		}
		step.Answer, encodeErr = a.stepAnswer(encodeShared(a.codec, &v))
		var progress *Answer
		progress, order, workErr = b.propose(&step)
		if workErr != nil {
			return Answer{}, workErr
		}
		return *progress, nil
	})
	b.decide(&step, order, err == nil)
	switch {
	case err == nil:
		if encodeErr != nil {
			return v, a.stepError(name, encodeErr)
		}
		return v, nil
	case workErr != nil && !errors.Is(err, ErrTxEnded), errors.Is(err, ErrCommitRefused):
		return v, err
	case errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrTxEnded):
		b.fail(err)
		return v, InDoubt(a.stepError(name, err))
	case errors.Is(err, ErrLeaseLost):
		return v, a.stepError(name, err)
	}
	return v, a.stepError(name, txError(err))
}

// propose returns the progress with a step that is not in the journal yet. Its order is never used
// again.
func (b *stepJournal) propose(s *StepRecord) (*Answer, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, 0, b.err
	}
	p := b.p
	p.Steps = b.with(s)
	b.inTx = len(s.Answer.Body)
	b.order++
	progress, err := p.answer(b.order)
	return progress, b.order, err
}

// decide puts the step into the journal if the store has it. The stored progress does not have
// steps that ended after propose.
func (b *stepJournal) decide(s *StepRecord, order int64, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inTx = 0
	if kept {
		b.p.Steps = append(slices.Clone(b.p.Steps), *s)
		b.saved = max(b.saved, order)
	}
}

// fail ends the use of the journal: it is unknown what the record has.
func (b *stepJournal) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}
