package retrysafe

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/internal/journal"
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
	defer b.Unlock()
	step, order := journal.Step{Name: name, Finished: true}, int64(0)
	var workErr, encodeErr error
	req := storeapi.StepRequest{Key: a.key, Owner: a.owner, Fence: a.fence, Lease: a.policy.Lease}
	err = db.StepTx(context.WithValue(ctx, insideStepTx{}, true), req, func(ctx context.Context, tx Tx) (Answer, error) {
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
