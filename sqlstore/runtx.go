package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

// RunTx implements [storeapi.TxStore]; retrysafe.DoTx calls it.
//
// On PostgreSQL and MySQL the transaction is at READ COMMITTED. Only calls for the same key wait
// for each other, for at most TxRequest.Wait; MySQL rounds that to whole seconds. Errors before
// work is called are tried again; for errors after it see TxRequest.Retries. work must not commit
// or roll back, and must return an error if a statement has failed. On MySQL it must not change
// tables, since DDL commits.
//
// On SQLite the transaction has the file's write lock from its first statement, before work is
// called, until it ends. No other call writes in between, whatever its key. A call waits for the
// lock no longer than its context and [Options].LockWait, and then fails with
// [storeapi.ErrUnavailable]. It waits up to TxRequest.Wait for a transaction of the same key in
// this process; one in another process holds the same file lock.
//
// work must not commit, roll back, or attach another file. A commit is atomic only within one file,
// so RunTx refuses a connection with an attached file. A statement that makes SQLite roll back (ON
// CONFLICT ROLLBACK, a full disk) also ends the transaction: return its error, since any later
// statement would commit on its own.
//
// If work ends the transaction nevertheless, the error is [storeapi.ErrTxEnded]. What it has
// committed is in doubt. So is what it may have written after a ROLLBACK as text, which commits
// statement by statement; on MySQL only after autocommit was turned on, and not after DDL.
func (s *Store) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, *sql.Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	if err := s.check(ctx, &r.Key); err != nil {
		return storeapi.Record{}, err
	}
	if s.db.dialect != SQLite {
		return s.runOnServer(ctx, r, work)
	}
	c := &claim{store: s, r: &r, id: idOf(r.Key), work: work}
	end, rec, err := c.queue(ctx)
	if end == nil {
		return rec, err
	}
	defer end()
	rec, err = c.run(ctx)
	err = interrupted(ctx, err)
	if err != nil && c.worked && c.ended == nil && c.committed(ctx) {
		c.ended = &endedError{cause: err}
	}
	if c.ended != nil {
		return rec, c.afterwards(ctx)
	}
	return rec, err
}

// claim is one call of RunTx.
type claim struct {
	store *Store
	r     *storeapi.TxRequest
	id    recordID
	work  func(context.Context, *sql.Tx) (storeapi.State, storeapi.Answer, error)
	// isNew means that the key was not looked at, since it is probably new. SQLite, MySQL.
	isNew bool
	// worked reports whether work was called.
	worked bool
	// ended is set if the work has ended the transaction itself. err alone does not show that,
	// since it may be the work's own error.
	ended *endedError
}

// decide decides as for any other call. If the record is in doubt, the claim is refused: the doubt
// comes from outside transactions, where the effect may have happened.
func (c *claim) decide(l loaded, now protocol.Micros) (next protocol.Row, won bool, err error) {
	next, status, _, err := protocol.Acquire(l.row, now, l.floor, &storeapi.AcquireRequest{
		Key: c.r.Key, Owner: c.r.Owner, Fingerprint: c.r.Fingerprint, Binding: c.r.Binding,
		Lease: strayLease, Retention: c.r.Retention, OnDoubt: storeapi.Refuse,
	})
	if err != nil || status == storeapi.StatusFinished {
		return next, false, err
	}
	if status == storeapi.StatusAcquired && l.row.State == storeapi.StateInProgress && l.row.Owner == c.r.Owner {
		// this work has committed the transaction itself before
		return l.row, false, storeapi.ErrInDoubt
	}
	answer := storeapi.Acquired{Status: status}
	return next, status == storeapi.StatusAcquired, answer.Err()
}

// queue waits until no transaction of the key runs in this process. If end is nil, there is nothing
// to run, and rec and err are the answer.
func (c *claim) queue(ctx context.Context) (end func(), rec storeapi.Record, err error) {
	var limit <-chan time.Time
	if c.r.Wait > 0 {
		t := time.NewTimer(c.r.Wait)
		defer t.Stop()
		limit = t.C
	}
	for {
		if other := c.store.running.other(c.id); other != nil {
			if err := c.await(ctx, other, limit); err != nil {
				return nil, storeapi.Record{Key: c.r.Key}, err
			}
		}
		if c.isNew = c.store.seen.isNew(c.id); !c.isNew {
			l, err := c.store.look(ctx, c.id)
			if err != nil {
				return nil, storeapi.Record{}, unavailable(err)
			}
			c.store.seen.was(l.row.State == 0)
			if row, won, err := c.decide(l, l.now); !won {
				return nil, row.Record(c.r.Key, l.now), err
			}
		}
		if end, ok := c.store.running.begin(c.id); ok {
			return end, storeapi.Record{}, nil
		}
	}
}

func (c *claim) await(ctx context.Context, other <-chan struct{}, limit <-chan time.Time) error {
	if limit == nil {
		return storeapi.ErrInProgress
	}
	select {
	case <-other:
		return nil
	case <-limit:
		return storeapi.ErrInProgress
	case <-ctx.Done():
		return fmt.Errorf("sqlstore: the call ended while it waited for a transaction of the same key: %w", ctx.Err())
	}
}

// run claims the key, runs the work and completes the record in one transaction.
func (c *claim) run(ctx context.Context) (rec storeapi.Record, err error) {
	q := c.store.db.queries()
	// Before a connection is held: preparing takes one.
	statements, err := c.store.db.statements.get(ctx, c.store.db, q.claimAt, q.load, q.put, q.make, q.finish, beginWork, endWork)
	if err != nil {
		return rec, unavailable(c.store.db.failed("begin the transaction", err))
	}
	var j *joint
	var won bool
	var answer error
	tx, err := c.store.db.beginWith(ctx, func(tx *sql.Tx) error {
		j = &joint{claim: c, tx: dbtx.SQL(prepared{tx, statements}, SQLite)}
		rec, won, answer = j.take(ctx)
		if held, ok := answer.(*heldError); ok { //nolint:errorlint // take wraps nothing around it
			return held.cause
		}
		return nil
	})
	if err != nil {
		return storeapi.Record{}, unavailable(c.store.db.failed("begin the transaction", err))
	}
	defer tx.end() // rolls back what was not committed, also if work panics
	if c.isNew {
		c.store.seen.was(won)
	}
	if !won {
		return rec, answer
	}
	state, result, err := c.callWork(ctx, prepared{tx.Tx, statements})
	if err != nil {
		return rec, err
	}
	done, err := j.complete(ctx, state, result)
	if err != nil {
		return rec, err
	}
	if err := tx.commit(ctx); err != nil {
		return c.settle(ctx, tx, rec, err)
	}
	return done, nil
}

// callWork runs work once, within a savepoint. After a final refusal it keeps the record and undoes
// the effect. A missing savepoint afterwards means that work has ended the transaction itself.
func (c *claim) callWork(ctx context.Context, tx prepared) (state storeapi.State, answer storeapi.Answer, err error) {
	if _, err := tx.ExecContext(ctx, beginWork); err != nil {
		return 0, answer, unavailable(c.store.db.failed("claim the key", err))
	}
	inside, end := marked(ctx, c.store.db.pool)
	defer end()
	c.worked = true
	state, answer, err = c.work(inside, tx.Tx)
	if err != nil {
		if c.ended = leftBy(ctx, tx, err); c.ended != nil {
			err = c.ended
		}
		return 0, answer, err
	}
	steps := []string{endWork}
	if state == storeapi.StateFailed {
		steps = []string{"ROLLBACK TO " + savepoint, steps[0]}
	}
	for _, step := range steps {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return 0, answer, c.broken(ctx, err)
		}
	}
	return state, answer, nil
}

// broken returns the error for a statement that failed after the work.
func (c *claim) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: the call ended before its transaction was committed, and all was rolled back: %w", ctx.Err())
	case endedByWork(err):
		c.ended = &endedError{cause: err, loose: !errors.Is(err, sql.ErrTxDone)}
		return c.ended
	}
	return unavailable(c.store.db.failed("complete the record", err))
}

// commitFailed returns the error for a COMMIT that was refused: everything was rolled back.
func (c *claim) commitFailed(failed error) error {
	if ofTheWork(failed) {
		return fmt.Errorf("%w: %w", storeapi.ErrCommitRefused, failed)
	}
	return unavailable(c.store.db.failed("COMMIT has failed, and all was rolled back", failed))
}

// committed reports, for a call that should have rolled back, whether its claim exists
// nevertheless. If so, the work has committed, hidden by its own error or by an ended context.
func (c *claim) committed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
	defer cancel()
	l, err := c.store.look(ctx, c.id)
	return err == nil && l.row.Owner == c.r.Owner && l.row.State == storeapi.StateInProgress
}

// unavailable marks a failure of the database that came before the work, or that has undone it.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", storeapi.ErrUnavailable, err)
}

// settle finds out the outcome of a COMMIT that failed: the holder of the write lock sees what was
// committed, and the rest never will be.
func (c *claim) settle(ctx context.Context, tx *writeTx, rec storeapi.Record, failed error) (storeapi.Record, error) {
	tx.undo() // ends whatever the connection still holds
	whole := context.WithoutCancel(ctx)
	var l loaded
	now := c.store.db.clock().UnixMicro()
	wait, cancel := c.store.db.patience(whole, time.Time{})
	defer cancel()
	err := c.store.db.writeInTurn(wait, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		var err error
		l, err = c.store.db.load(ctx, w, c.store.db.queries().loadToWrite, c.id)
		return false, err
	})
	if err != nil {
		return rec, fmt.Errorf("%w: COMMIT has failed, and nobody can say what became of it: %w",
			storeapi.ErrUnconfirmed, errors.Join(c.store.db.failed("commit", failed), c.store.db.failed("look for the record", err)))
	}
	switch {
	case l.row.Owner == c.r.Owner && l.row.State.Finished():
		return l.row.Record(c.r.Key, now), nil
	case l.row.Owner == c.r.Owner && l.row.State != 0:
		c.ended = &endedError{cause: failed}
		return rec, c.ended
	case ctx.Err() != nil:
		return rec, c.broken(ctx, failed)
	}
	return rec, c.commitFailed(failed)
}

// afterwards puts the record in doubt if a part of the effect may have been committed: the work has
// committed the claim, or has written after it had rolled it back.
func (c *claim) afterwards(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	l, err := c.store.look(ctx, c.id)
	fence, what := l.row.Fence, "the work committed its transaction by itself"
	if err == nil && l.row.Owner != c.r.Owner {
		if !c.ended.loose {
			return c.ended
		}
		what = "the work rolled its transaction back by itself, and what it wrote after that may stand"
		if fence, err = c.claimAgain(ctx); err == nil && fence == 0 {
			return c.ended // another attempt has the key already
		}
	}
	if err == nil {
		err = c.store.Release(ctx, storeapi.ReleaseRequest{
			Key: c.r.Key, Owner: c.r.Owner, Fence: fence, InDoubt: true, Cause: "error", LastError: what,
		})
	}
	return errors.Join(fmt.Errorf("%w: %w", storeapi.ErrInDoubt, c.ended), err)
}

// claimAgain claims the key outside of any transaction. It returns zero if another attempt has it.
func (c *claim) claimAgain(ctx context.Context) (storeapi.Fence, error) {
	got, err := c.store.Acquire(ctx, storeapi.AcquireRequest{
		Key: c.r.Key, Owner: c.r.Owner, Fingerprint: c.r.Fingerprint, Binding: c.r.Binding,
		Lease: strayLease, Retention: c.r.Retention, OnDoubt: storeapi.Refuse,
	})
	if err != nil || got.Status != storeapi.StatusAcquired {
		return 0, err
	}
	return got.Record.Fence, nil
}

// limitWait returns a context for statements in a transaction that wait no longer than limit. ended
// ends it, and replaces *err if the limit was reached. PostgreSQL locks a table before any setting
// of the same statement counts, so the wait for it can only be ended here, and the connection with
// it. On MySQL the server ends such waits earlier. SQLite limits its waits itself.
func (s *Store) limitWait(call context.Context, limit time.Duration, err *error) (ctx context.Context, ended func()) {
	if s.db.dialect == SQLite {
		return call, func() {}
	}
	limit = min(limit, longestWait)
	long := limit
	if s.db.dialect == MySQL {
		long += 3 * slack // the server counts in whole seconds
	}
	ctx, cancel := context.WithTimeout(call, long)
	return ctx, func() {
		if *err != nil && ctx.Err() != nil && call.Err() == nil {
			*err = unavailable(&lockError{after: limit, text: serverWaits})
		}
		cancel()
	}
}

// within begins a statement that waits for rows no longer than wait, and for tables no longer than
// LockWait. It is empty on servers that cannot limit a single statement.
func (s *Store) within(wait time.Duration) string {
	if s.db.dialect != MySQL || s.db.words.noSetStatement.Load() {
		return ""
	}
	return mysqlWithin(mysqlSeconds(wait), s.db.lockWait)
}
