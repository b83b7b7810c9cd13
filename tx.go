package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// DoTx runs fn and stores its answer in one database transaction: the effect happens exactly once,
// and the outcome is never in doubt. Whatever dies, either both are there or neither. A call that
// does not finish leaves nothing in the database.
//
// fn gets the transaction and must do its work in it; what it does elsewhere is not covered. It
// must not commit or roll back, and must not call an engine on the same database
// ([ErrInTransaction]). An error of fn rolls back and comes back wrapped, except that a [Permanent]
// one is stored, without its effect. The record's layer is "tx". The context of fn ends when
// Shutdown stops waiting.
//
// In an HTTP middleware or a consumer, put DoTx inside and set their policy to [Reexecute]: a
// second run reaches the database, which knows whether the first one committed.
//
// Errors are those of [Do]. [ErrUnconfirmed] means that COMMIT was sent and not answered: repeat
// the call with the same key to learn the outcome.
func DoTx[Tx, T any](ctx context.Context, e *Engine, db storeapi.TxStore[Tx], k Key, fn func(context.Context, Tx) (T, error), opts ...CallOption) (Result[T], error) {
	e = e.Layer("tx")
	call, o := e.c.traceCall(&ctx, e.storeKey(k)), e.callOptions(opts)
	outcome, attempt := "failed", 0
	var res Result[T]
	var err error
	defer func() { call.done(outcome, attempt, err) }() // also if fn panics
	var ran bool
	res, ran, err = doTx(ctx, e, db, k, fn, o)
	attempt = res.Attempt
	switch {
	case !ran:
		outcome = duplicateOutcome(err, o.policy.Duplicate)
	case err == nil:
		outcome = "executed"
	}
	return res, err
}

func doTx[Tx, T any](ctx context.Context, e *Engine, db storeapi.TxStore[Tx], k Key, fn func(context.Context, Tx) (T, error), o *callOptions) (res Result[T], ran bool, err error) {
	c, key := e.c, e.storeKey(k)
	err = errors.Join(o.err, key.Validate())
	if err == nil && o.issued.must {
		err = errIssuedTx
	}
	if err != nil {
		return res, false, &Error{Op: k.Operation, Err: err}
	}
	if !c.enter() {
		return res, false, c.wrap(key, 0, ErrClosed, time.Second)
	}
	defer c.life.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrEnded)
	// When Shutdown stops waiting, an open transaction rolls back.
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	_, inside := AttemptFrom(ctx)
	reserved, err := c.quotas.reserve(ctx, db, key, o.policy, o.payer(key), inside)
	if err != nil {
		return res, false, err
	}
	defer func() { reserved.finish(false) }() // if fn panics
	req := storeapi.TxRequest{Key: key, Owner: newOwner(), Fingerprint: o.fingerprint, Retention: o.policy.Retention, Wait: o.policy.Wait, Retries: o.retries}
	req.Binding = c.binding(o.binding)

	var value T
	var workErr, encodeErr error
	var kept Answer
	rec, err := db.RunTx(ctx, req, func(ctx context.Context, tx Tx) (State, Answer, error) {
		ran = true
		value, workErr = fn(ctx, tx)
		if workErr != nil && outcomeOf(workErr, &Policy{}) == Failed {
			answer, err := failureOf(workErr).answer()
			kept = limited(answer, o.policy.MaxAnswer)
			return StateFailed, kept, err
		}
		if workErr != nil {
			return 0, Answer{}, workErr
		}
		var answer Answer
		answer, encodeErr = encode(c.codec, &value)
		kept = limited(answer, o.policy.MaxAnswer)
		return StateCompleted, kept, nil
	})
	mine := err == nil && rec.Owner == req.Owner
	reserved.finish(mine && rec.Attempt == 1 || errors.Is(err, ErrUnconfirmed))
	if mine {
		c.quotas.countAnswer(db, key.Namespace, o.payer(key), o.policy, &kept)
	}
	res.Attempt, res.Fence = rec.Attempt, rec.Fence
	switch {
	case ran && workErr != nil && (mine || err != nil && errors.Is(err, workErr)):
		res.Stored = err == nil
		if res.Stored {
			return res, true, &settledError{err: failureOf(workErr)}
		}
		return res, true, &settledError{err: err, again: !errors.Is(err, ErrTxEnded)}
	case err != nil:
		err = txError(err)
		return res, ran, c.wrap(key, rec.Attempt, err, txRetry(err))
	case mine:
		res.Value, res.Stored = value, true
		return res, true, encodeErr
	case o.policy.Duplicate == Reject:
		return res, false, c.rejected(&rec)
	}
	res, err = replay[T](c.runtime, &rec, o.policy.Duplicate)
	return res, false, err
}

var errIssuedTx = fmt.Errorf("a transaction does not ask whether its key was issued; redeem the key around DoTx: %w", errors.ErrUnsupported)

func txRetry(err error) time.Duration {
	if errors.Is(err, ErrInProgress) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnconfirmed) {
		return time.Second
	}
	return 0
}
