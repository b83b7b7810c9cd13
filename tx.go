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
	// work returns its outcome: StateCompleted commits effect and answer; StateFailed undoes the
	// effect and commits the answer; an error (or a panic) rolls everything back, and RunTx returns
	// the error as it is.
	//
	// The record that RunTx returns has r.Owner if this call's work was committed. Otherwise it is
	// the record of an earlier call, and work did not run. If work did not run, errors are those of
	// [Acquired.Err]. If the reply to COMMIT is lost, RunTx finds out what happened before it
	// returns, or returns [ErrUnconfirmed].
	RunTx(ctx context.Context, r TxRequest, work func(context.Context, Tx) (State, Answer, error)) (Record, error)
}

// TxRequest claims a key for one transaction.
type TxRequest struct {
	Key                  StoreKey
	Owner                Owner
	Fingerprint, Binding []byte
	Retention            time.Duration
	// Wait is how long to wait for another transaction that holds the key. A negative value means
	// not at all.
	Wait time.Duration
	// Retries is how often the whole transaction is run again, work included, if the database has
	// rolled it back in favour of another one (a deadlock, a serialization failure) after work was
	// called. Before that it is run again in any case.
	Retries int
	// Gate can refuse the transaction before COMMIT; nil means no gate.
	Gate *TxGate
}

// TxGate lets its owner refuse a transaction at the last moment, and wait for all transactions that
// were not refused. shardstore moves keys with it.
type TxGate struct {
	// Lock names a record that exists. After the work the transaction takes a shared lock on it,
	// which others may hold too, and keeps the lock until it has ended.
	Lock StoreKey
	// Check is called while the lock is held. lookup reads a record as it is committed at that
	// moment. An error rolls everything back, and RunTx returns it as it is.
	Check func(ctx context.Context, lookup func(StoreKey) (Record, error)) error
}

// TxSettler is a [Store] on a database whose [TxStore] supports [TxGate]. sqlstore implements it.
type TxSettler interface {
	// SettleTx returns when every transaction that holds the shared lock on the record of key has
	// ended.
	SettleTx(ctx context.Context, key StoreKey) error
}

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
func DoTx[Tx, T any](ctx context.Context, e *Engine, db TxStore[Tx], k Key, fn func(context.Context, Tx) (T, error), opts ...CallOption) (Result[T], error) {
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
	// When Shutdown stops waiting, an open transaction rolls back.
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	_, inside := AttemptFrom(ctx)
	reserved, err := c.quotas.reserve(ctx, db, key, o.policy, o.payer(key), inside)
	if err != nil {
		return res, false, err
	}
	defer func() { reserved.finish(false) }() // if fn panics
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
