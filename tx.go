package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TxStore runs work in one database transaction together with the record of its key. sqlstore is a
// TxStore[*sql.Tx].
type TxStore[Tx any] interface {
	// RunTx begins a transaction, claims the key in it, runs work once, writes its answer into the
	// record and commits.
	//
	// work says how it ended: StateCompleted commits effect and answer; StateFailed undoes the
	// effect and commits the answer; an error (or a panic) rolls everything back, and the error is
	// returned as it is.
	//
	// The record returned has r.Owner where this call's work was committed; else it is that of an
	// earlier call, and work was not run. Errors without work having run are those of
	// [Acquired.Err]. A COMMIT whose reply is lost is settled before RunTx returns, or is
	// [ErrUnconfirmed].
	RunTx(ctx context.Context, r TxRequest, work func(context.Context, Tx) (State, Answer, error)) (Record, error)
}

// TxRequest claims a key for one transaction.
type TxRequest struct {
	Key                  StoreKey
	Owner                Owner
	Fingerprint, Binding []byte
	Retention            time.Duration
	// Wait is how long to wait for another transaction that holds the key; negative: not at all.
	Wait time.Duration
	// Retries is how often the whole transaction is made anew, work included, where the database
	// has rolled it back in favour of another one (a deadlock, a serialization failure) after work
	// was called. Before that it is made anew in any case.
	Retries int
	// Gate has the last word before COMMIT; nil: nobody asks.
	Gate *TxGate
}

// TxGate lets somebody refuse a transaction at the last moment, and wait for all those that were
// not refused: shardstore moves keys so.
type TxGate struct {
	// Lock names a record that exists. After the work the transaction takes a shared lock on it,
	// which others may have as well, and keeps that until it has ended.
	Lock StoreKey
	// Check is called when the lock is held. lookup reads a record as it is committed at that
	// moment. An error rolls everything back, and RunTx returns it as it is.
	Check func(ctx context.Context, lookup func(StoreKey) (Record, error)) error
}

// TxSettler is a [Store] on a database whose [TxStore] keeps to [TxGate]. sqlstore implements it.
type TxSettler interface {
	// SettleTx returns when every transaction that has the shared lock on the record of key has
	// ended.
	SettleTx(ctx context.Context, key StoreKey) error
}

// DoTx runs fn and keeps its answer in one database transaction: the effect happens exactly once,
// and there is never a doubt. Whatever dies, either both are there or neither; a half-done call
// leaves nothing behind.
//
// fn gets the transaction and must do its work in it: what it does elsewhere is not covered. It
// must not commit or roll back, and must not call an engine on the same database
// ([ErrInTransaction]). An error of fn rolls back and comes back wrapped, except that a [Permanent]
// one is kept, without its effect. The record's layer is "tx"; the context of fn ends when Shutdown
// gives up.
//
// Under an HTTP middleware or a consumer, put DoTx inside and set their policy to [Reexecute]: a
// second run meets the database.
//
// Errors are those of [Do]. [ErrUnconfirmed]: the COMMIT was sent and not answered; repeat the call
// with the same key to learn what became of it.
func DoTx[Tx, T any](ctx context.Context, e *Engine, db TxStore[Tx], k Key, fn func(context.Context, Tx) (T, error), opts ...CallOption) (Result[T], error) {
	e = e.Layer("tx")
	call, o := e.c.traceCall(&ctx, e.storeKey(k)), e.callOptions(opts)
	outcome, attempt := "failed", 0
	var res Result[T]
	var err error
	defer func() { call.done(outcome, attempt, err) }() // also when fn panics
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

func doTx[Tx, T any](ctx context.Context, e *Engine, db TxStore[Tx], k Key, fn func(context.Context, Tx) (T, error), o *callOptions) (res Result[T], ran bool, err error) {
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
	// Shutdown has given up: what is open rolls back
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	_, inside := AttemptFrom(ctx)
	reserved, err := c.quotas.reserve(ctx, db, key, o.policy, o.payer(key), inside)
	if err != nil {
		return res, false, err
	}
	defer func() { reserved.finish(false) }() // where fn panics
	req := TxRequest{Key: key, Owner: newOwner(), Fingerprint: o.fingerprint, Retention: o.policy.Retention, Wait: o.policy.Wait, Retries: o.retries}
	req.Binding = c.binding(o.binding)

	var value T
	var workErr, encodeErr error
	var kept Answer
	rec, err := db.RunTx(ctx, req, func(ctx context.Context, tx Tx) (State, Answer, error) {
		ran = true
		value, workErr = fn(ctx, tx)
		if workErr != nil && outcomeOf(workErr, &Policy{}) == Failed {
			answer, err := failureOf(workErr).answer()
			kept = answer.limited(o.policy.MaxAnswer)
			return StateFailed, kept, err
		}
		if workErr != nil {
			return 0, Answer{}, workErr
		}
		var answer Answer
		answer, encodeErr = encode(c.codec, &value)
		kept = answer.limited(o.policy.MaxAnswer)
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
