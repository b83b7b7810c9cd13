package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// In joins a transaction that the caller has begun and will commit: retrysafe.DoTx(ctx, engine,
// store.In(tx), key, fn). Call it before any other statement of the transaction, and commit where
// it returned no error, or a *retrysafe.Failure, which is kept too, without its effect: the answer
// is true when the COMMIT was, and not before.
//
// On any other error roll back. Nothing is tried again. ErrInProgress and errors of the database
// may pass with a new transaction; the answer of finished work is given, and then there is nothing
// to commit. Whether a COMMIT without a reply was carried out is found out by the same call in a
// new transaction.
//
// A transaction at READ COMMITTED sees what others have committed meanwhile. At a stricter level a
// caller that has waited for another one of the same key gets an error of the database instead of
// its answer, and gets that in a new transaction.
//
//   - On MySQL the transaction must not go on after error 1213 or 1205: the first has rolled it
//     back, so that what follows would commit by itself where autocommit is on; the second has
//     undone one statement. A call that is not to wait waits for a second, the shortest that the
//     server takes.
//   - On SQLite the first statement of the transaction must be this one: one that has read before
//     may be refused the lock (error 517). Waiting takes as long as the connection's busy_timeout
//     says.
func (s *Store) In(tx *sql.Tx) retrysafe.TxStore[*sql.Tx] {
	return joined[*sql.Tx]{s, tx, dbtx.SQL(tx, s.dialect)}
}

// Conn is In for transactions of other libraries: GORM's, pgx's, and all that have a [dbtx.Tx].
func (s *Store) Conn(tx dbtx.Tx) retrysafe.TxStore[dbtx.Tx] { return joined[dbtx.Tx]{s, tx, tx} }

// Join is In for adapters: their transaction, and the same one as this package needs it.
func Join[Tx any](s *Store, tx Tx, same dbtx.Tx) retrysafe.TxStore[Tx] {
	return joined[Tx]{s, tx, same}
}

// joined is an open transaction of the caller.
type joined[Tx any] struct {
	store *Store
	tx    Tx
	same  dbtx.Tx
}

// Lookup and Charge are those of the store: the engine asks there whether a key is known, and
// counts it, where there are limits.
func (t joined[Tx]) Lookup(ctx context.Context, key retrysafe.StoreKey) (retrysafe.Record, error) {
	return t.store.Lookup(ctx, key)
}

// Charge is as Lookup.
func (t joined[Tx]) Charge(ctx context.Context, req retrysafe.ChargeRequest) (retrysafe.Charged, error) {
	return t.store.Charge(ctx, req)
}

// RunTx implements [retrysafe.TxStore].
func (t joined[Tx]) RunTx(ctx context.Context, r retrysafe.TxRequest, work func(context.Context, Tx) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	s := t.store
	if err := s.check(ctx, &r.Key); err != nil {
		return retrysafe.Record{}, err
	}
	if r.Gate != nil {
		return retrysafe.Record{}, fmt.Errorf("sqlstore: a transaction that the caller commits cannot have a gate: %w", errors.ErrUnsupported)
	}
	if d := t.same.Dialect(); d != s.dialect {
		return retrysafe.Record{}, stateError("sqlstore: the transaction is one of " + d.String() + ", and the store is on " + s.dialect.String() + ": join one of the same database")
	}
	c := &claim{Store: s, r: &r, id: idOf(r.Key)}
	var rec retrysafe.Record
	var answer retrysafe.Answer
	err := dbtx.Savepoint(ctx, t.same, func(ctx context.Context) (err error) {
		j := &joint{claim: c, tx: t.same, joins: true}
		var won bool
		if rec, won, err = j.take(ctx); !won {
			return err
		}
		if s.dialect == SQLite {
			// after the claim: what has read before it writes may be refused the lock
			if err := oneFile(func(dest ...any) error { return t.same.QueryRow(ctx, otherFiles, nil, dest...) }); err != nil {
				return err
			}
		}
		var state retrysafe.State
		inside, end := marked(ctx, s.db)
		defer end()
		if state, answer, err = work(inside, t.tx); err != nil {
			return err
		}
		if state == retrysafe.StateFailed {
			return errRefusal
		}
		rec, err = j.complete(ctx, state, answer)
		return err
	})
	if held, ok := err.(*heldError); ok { //nolint:errorlint // Savepoint returns what it was given, or joins it with another
		return t.held(ctx, c, held)
	}
	if err != errRefusal { //nolint:errorlint // joined with another, it is one
		return rec, err
	}
	// The effect is undone, and with it the claim.
	j := &joint{claim: c, tx: t.same, joins: true}
	rec, won, err := j.take(ctx)
	if held, ok := err.(*heldError); ok { //nolint:errorlint // take wraps nothing around it
		return t.held(ctx, c, held)
	}
	if !won {
		return rec, err
	}
	return j.complete(ctx, retrysafe.StateFailed, answer)
}

// held is the answer where somebody else has the key, as this transaction sees it: another
// connection might not be to be had.
func (t joined[Tx]) held(ctx context.Context, c *claim, held *heldError) (retrysafe.Record, error) {
	j := &joint{claim: c, tx: t.same}
	query := j.queries.load
	if j.queries.loadUnlocked != "" {
		query = j.queries.loadUnlocked
	}
	if l, err := j.load(ctx, query); err == nil {
		if rec, ok := c.answerIn(l); ok {
			return rec, nil
		}
	}
	if c.dialect == SQLite && c.running.other(c.id) == nil { // the file is busy, with whatever key
		return retrysafe.Record{Key: c.r.Key}, held.cause
	}
	return retrysafe.Record{Key: c.r.Key}, retrysafe.ErrInProgress
}

// errRefusal undoes the effect of work that was refused for good, and is told to nobody.
var errRefusal = errors.New("sqlstore: a final refusal")
