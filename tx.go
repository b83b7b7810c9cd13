package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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
	call, o := e.c.traceCall(&ctx, e.storeKey(k)), e.defaults.withOptions(opts)
	outcome, attempt := "failed", 0
	var res Result[T]
	var err error
	defer func() { call.reportEnd(outcome, attempt, err) }() // also if fn panics
	var ran bool
	res, ran, err = runTx(ctx, e, db, k, fn, o, call)
	attempt = res.Attempt
	switch {
	case !ran:
		outcome = duplicateOutcomeName(err, o.policy.Duplicate)
	case err == nil:
		outcome = "executed"
	}
	return res, err
}

func runTx[Tx, T any](ctx context.Context, e *Engine, db storeapi.TxStore[Tx], k Key, fn func(context.Context, Tx) (T, error), o *callOptions, call *callTrace) (res Result[T], ran bool, err error) {
	c, key := e.c, e.storeKey(k)
	err = errors.Join(o.err, key.Validate())
	if err == nil && replaysAnswers(o.policy) {
		err = checkDecodable[T](c.codec)
	}
	if err == nil && o.issued.must {
		err = errIssuedTx
	}
	if err != nil {
		return res, false, &Error{Op: k.Operation, Err: err}
	}
	if !c.enterCall() {
		return res, false, c.wrapError(key, 0, ErrClosed, time.Second)
	}
	defer c.life.Leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrEnded)
	// When Shutdown stops waiting, an open transaction rolls back.
	defer context.AfterFunc(c.life.Context(), func() { cancel(ErrClosed) })()
	reserved, err := c.reserveKey(ctx, db, key, o)
	if err != nil {
		return res, false, err
	}
	defer func() { reserved.Finish(false) }() // if fn panics
	req := storeapi.TxRequest{
		Key: key, Owner: claim.NewOwner(), Fingerprint: o.fingerprint, Binding: c.bindingDigest(o.binding),
		Retention: o.policy.Retention, Wait: o.policy.Wait, Retries: o.retries,
	}
	w := txWork[Tx, T]{c: c, fn: fn, codec: c.codec, policy: o.policy}
	rec, err := db.RunTx(ctx, req, w.run)
	if errors.Is(err, ErrCommitRefused) {
		w.err = err // as if the work had returned it
	}
	mine := err == nil && rec.Owner == req.Owner
	if call.noteRecord(&rec); mine && call != nil {
		call.origin = "" // it is no duplicate
	}
	reserved.Finish(mine && rec.Attempt == 1 || errors.Is(err, ErrUnconfirmed))
	if mine {
		req := chargeRequest(key, o.account, o.policy)
		req.Bytes = int64(len(w.answer.Body))
		c.quotas.CountBytes(db, req)
	}
	res.Attempt, res.Fence = rec.Attempt, rec.Fence
	switch {
	case w.returnsWorkError(mine, err):
		res.Stored = err == nil
		return res, true, w.workError(err)
	case err != nil:
		err = txError(err)
		return res, w.ran, c.wrapError(key, rec.Attempt, err, txRetryAfter(err))
	case mine:
		res.Value, res.Stored = w.value, true
		return res, true, w.encodeErr
	case o.policy.Duplicate == Reject:
		return res, false, c.rejectError(&rec)
	}
	res, err = replayAnswer[T](c, &rec, o.policy.Duplicate)
	return res, false, err
}

// txWork is the work of one call of DoTx, and its outcome. If the database runs it again, the
// last run counts.
type txWork[Tx, T any] struct {
	c      *core
	fn     func(context.Context, Tx) (T, error)
	codec  Codec
	policy *Policy

	ran       bool
	value     T
	err       error // of fn
	encodeErr error
	answer    Answer // as it is stored
}

func (w *txWork[Tx, T]) run(ctx context.Context, tx Tx) (State, Answer, error) {
	if !w.ran && w.c.trace.Begun != nil {
		w.c.trace.Begun(ctx)
	}
	w.ran = true
	w.value, w.err = w.fn(ctx, tx)
	var state State
	var answer Answer
	var err error
	switch {
	case w.err == nil:
		state = StateCompleted
		answer, w.encodeErr = encodeForPolicy(w.policy, w.codec, &w.value)
	case outcomeOf(w.err, &Policy{}) == Failed:
		state = StateFailed
		answer, err = failureOf(w.err).storedAnswer()
	default:
		return 0, Answer{}, w.err
	}
	w.answer = w.c.answerToStore(ctx, answer, w.policy)
	return state, w.answer, err
}

// returnsWorkError reports whether the caller gets the error of fn: its refusal was stored, or it
// has rolled the transaction back.
func (w *txWork[Tx, T]) returnsWorkError(mine bool, err error) bool {
	return w.ran && w.err != nil && (mine || err != nil && errors.Is(err, w.err))
}

// workError is the error of fn as callers get it; err is that of the database.
func (w *txWork[Tx, T]) workError(err error) error {
	if err == nil {
		return &workError{err: failureOf(w.err)}
	}
	return &workError{err: err, retryable: !errors.Is(err, ErrTxEnded)}
}

var errIssuedTx = fmt.Errorf("a transaction does not ask whether its key was issued; redeem the key around DoTx: %w", errors.ErrUnsupported)

func txRetryAfter(err error) time.Duration {
	if errors.Is(err, ErrInProgress) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnconfirmed) {
		return time.Second
	}
	return 0
}
