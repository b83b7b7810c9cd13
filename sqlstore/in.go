package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

// In joins a transaction that the caller has begun and will commit: retrysafe.DoTx(ctx, engine,
// store.In(tx), key, fn). Call it before any other statement of the transaction. Commit if it
// returns no error, or a *retrysafe.Failure: a failure is stored too, without its effect. The
// answer is valid only after the COMMIT.
//
// After any other error, roll back. The store does not try again. ErrInProgress and database errors
// may be gone in a new transaction. If the work was finished before, In returns the stored answer,
// and there is nothing to commit. After a COMMIT without a reply, make the same call in a new
// transaction: it finds out whether the first one committed.
//
// At READ COMMITTED, the transaction sees what other transactions have committed meanwhile. At a
// stricter level, a caller that has waited for another one with the same key gets a database error
// instead of the answer. It gets the answer in a new transaction.
//
// While the table of the records is locked as a whole, the call ends after [Options].LockWait. On
// PostgreSQL that ends the connection of tx.
//
//   - On MySQL, do not continue the transaction after error 1213 or 1205. The first has rolled it
//     back, so later statements would commit on their own if autocommit is on. The second has
//     undone one statement. A call that should not wait still waits for one second, the shortest
//     time that the server accepts. If the server does not restore the session's own lock waits,
//     In ends the connection of tx.
//   - On SQLite, this call must be the first statement of the transaction: SQLite may refuse the
//     lock to a transaction that has read before (error 517). Waiting is limited by the
//     connection's busy_timeout.
func (s *Store) In(tx *sql.Tx) storeapi.TxStore[*sql.Tx] {
	return joined[*sql.Tx]{s, tx, dbtx.SQL(tx, s.db.dialect)}
}

// InTx is like In, for transactions of other libraries: GORM's, pgx's, and any other [dbtx.Tx].
func (s *Store) InTx(tx dbtx.Tx) storeapi.TxStore[dbtx.Tx] { return joined[dbtx.Tx]{s, tx, tx} }

// Join is like In, for adapters: tx is the adapter's transaction, and same is that transaction as a
// [dbtx.Tx].
func Join[Tx any](s *Store, tx Tx, same dbtx.Tx) storeapi.TxStore[Tx] {
	return joined[Tx]{s, tx, same}
}

// joined is a store within an open transaction of the caller.
type joined[Tx any] struct {
	store *Store
	tx    Tx
	same  dbtx.Tx
}

// Lookup calls the store's Lookup. If there are limits, the engine uses it to find out whether a
// key is known, and Charge to count the key.
func (t joined[Tx]) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return t.store.Lookup(ctx, key)
}

// Charge calls the store's Charge.
func (t joined[Tx]) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	return t.store.Charge(ctx, req)
}

// Usage calls the store's Usage.
func (t joined[Tx]) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	return t.store.Usage(ctx, req)
}

// RunTx implements [storeapi.TxStore].
func (t joined[Tx]) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	s := t.store
	if err := s.admit(ctx, &r.Key); err != nil { // the caller may have the only connection
		return storeapi.Record{}, err
	}
	if d := t.same.Dialect(); d != s.db.dialect {
		return storeapi.Record{}, stateError("sqlstore: the transaction is one of " + d.String() + ", and the store is on " + s.db.dialect.String() + ": join one of the same database")
	}
	c := &claim{store: s, r: &r, id: idOf(r.Key)}
	var rec storeapi.Record
	var answer storeapi.Answer
	err := dbtx.Savepoint(ctx, t.same, func(ctx context.Context) (err error) {
		j := &joint{claim: c, tx: t.same, joins: true}
		var won bool
		if rec, won, err = j.take(ctx); !won {
			return err
		}
		var state storeapi.State
		inside, end := marked(ctx, s.db.pool)
		defer end()
		if state, answer, err = work(inside, t.tx); err != nil {
			return err
		}
		if state == storeapi.StateFailed {
			return errRefusal
		}
		rec, err = j.complete(ctx, state, answer)
		return err
	})
	if held, ok := err.(*heldError); ok { //nolint:errorlint // Savepoint returns what it was given, or joins it with another
		return t.held(ctx, c, held)
	}
	if err != errRefusal { //nolint:errorlint // joined with another, it is one
		return rec, s.joinedEnd(err)
	}
	// The effect was undone, and the claim with it.
	j := &joint{claim: c, tx: t.same, joins: true}
	rec, won, err := j.take(ctx)
	if held, ok := err.(*heldError); ok { //nolint:errorlint // take wraps nothing around it
		return t.held(ctx, c, held)
	}
	if !won {
		return rec, err
	}
	return j.complete(ctx, storeapi.StateFailed, answer)
}

// joinedEnd returns err, or that the work has ended the caller's transaction: then its savepoint is
// gone. The database itself ends a transaction too, which err says.
func (s *Store) joinedEnd(err error) error {
	on, isServer := s.backend.(interface{ fateOf(error) fate })
	if !endedByWork(err) || sqliteUndoes(err) || isServer && on.fateOf(err) == blocked {
		return err
	}
	return &endedError{cause: err, loose: !errors.Is(err, sql.ErrTxDone)}
}

// held returns the answer if another caller has the key, as this transaction sees it. It does not
// use another connection, since there might be none.
func (t joined[Tx]) held(ctx context.Context, c *claim, held *heldError) (storeapi.Record, error) {
	j := &joint{claim: c, tx: t.same}
	var l loaded
	var err error
	func() {
		ctx, ended := c.store.limitWait(ctx, c.store.db.lockWait, &err)
		defer ended()
		l, err = j.load(ctx, c.store.within(0)+j.claim.store.db.queries().unlocked())
	}()
	switch {
	case err == nil:
	case c.store.db.dialect == SQLite:
		return storeapi.Record{Key: c.r.Key}, held.cause
	default: // the whole table is locked
		return storeapi.Record{Key: c.r.Key}, unavailable(&lockError{after: c.store.db.lockWait, text: serverWaits})
	}
	if rec, ok := c.answerIn(l); ok {
		return rec, nil
	}
	if c.store.db.dialect == SQLite && c.store.running.other(c.id) == nil {
		// the file is busy, with whatever key
		return storeapi.Record{Key: c.r.Key}, held.cause
	}
	return storeapi.Record{Key: c.r.Key}, storeapi.ErrInProgress
}
