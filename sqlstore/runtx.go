package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// RunTx implements [retrysafe.TxStore]; retrysafe.DoTx calls it.
//
// On PostgreSQL and MySQL the transaction is at READ COMMITTED. Only calls for the same key wait
// for each other, for TxRequest.Wait at most; MySQL counts in whole seconds. Errors before work is
// called are met with another try; after it see TxRequest.Retries. work must neither commit nor
// roll back, and a statement that has failed is to be returned as an error. On MySQL it must not
// change tables (DDL commits).
//
// On SQLite the transaction has the file's write lock from its first statement, before work is
// called, until it has ended: no other call writes in between, whatever its key. A call waits for
// the lock no longer than its context and [Options].LockWait, and then fails with
// [retrysafe.ErrUnavailable]. It waits TxRequest.Wait for a transaction of the same key in this
// process; one in another process holds the same lock.
//
// work must neither commit nor roll back, nor attach another file: a commit is atomic for each file
// by itself, so that RunTx refuses a connection that has one attached. A statement that makes
// SQLite roll back by itself (ON CONFLICT ROLLBACK, a full disk) ends the transaction too: return
// its error, since what follows would be committed on its own.
func (s *Store) RunTx(ctx context.Context, r retrysafe.TxRequest, work func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	if err := s.check(ctx, &r.Key); err != nil {
		return retrysafe.Record{}, err
	}
	if s.dialect != SQLite {
		return s.runOnServer(ctx, r, work)
	}
	c := &claim{Store: s, r: &r, id: idOf(r.Key), work: work}
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
	*Store
	r    *retrysafe.TxRequest
	id   recordID
	work func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error)
	// worked: work was called.
	worked bool
	// ended is set where work has ended the transaction by itself. It is no error to look for in
	// err, which may be the work's own.
	ended *endedError
}

// strayLease is how long a record that the work has committed by itself looks as if it ran, if this
// process dies before it says otherwise. Nobody ever sees the lease of a transaction that ends as
// it should.
const strayLease = 30 * time.Second

// decide looks at the record as any other call does. A doubt is refused: it comes from outside of
// transactions, where the effect may have happened.
func (c *claim) decide(l loaded, now protocol.Micros) (next protocol.Row, won bool, err error) {
	next, status, _, err := protocol.Acquire(l.row, now, l.floor, &retrysafe.AcquireRequest{
		Key: c.r.Key, Owner: c.r.Owner, Fingerprint: c.r.Fingerprint, Binding: c.r.Binding,
		Lease: strayLease, Retention: c.r.Retention, OnDoubt: retrysafe.Refuse,
	})
	if err != nil || status == retrysafe.Finished {
		return next, false, err
	}
	if status == retrysafe.Won && l.row.State == retrysafe.StateInProgress && l.row.Owner == c.r.Owner {
		return l.row, false, retrysafe.ErrInDoubt // this very work has committed by itself before
	}
	answer := retrysafe.Acquired{Status: status}
	return next, status == retrysafe.Won, answer.Err()
}

// queue waits until no transaction of the key runs in this process. A nil end: there is nothing to
// run, and rec and err are the answer.
func (c *claim) queue(ctx context.Context) (end func(), rec retrysafe.Record, err error) {
	var limit <-chan time.Time
	if c.r.Wait > 0 {
		t := time.NewTimer(c.r.Wait)
		defer t.Stop()
		limit = t.C
	}
	for {
		if other := c.running.other(c.id); other != nil {
			if err := c.await(ctx, other, limit); err != nil {
				return nil, retrysafe.Record{Key: c.r.Key}, err
			}
		}
		l, err := c.look(ctx, c.id)
		if err != nil {
			return nil, retrysafe.Record{}, unavailable(err)
		}
		if row, won, err := c.decide(l, l.now); !won {
			return nil, row.Record(c.r.Key, l.now), err
		}
		if end, ok := c.running.begin(c.id); ok {
			return end, retrysafe.Record{}, nil
		}
	}
}

func (c *claim) await(ctx context.Context, other <-chan struct{}, limit <-chan time.Time) error {
	if limit == nil {
		return retrysafe.ErrInProgress
	}
	select {
	case <-other:
		return nil
	case <-limit:
		return retrysafe.ErrInProgress
	case <-ctx.Done():
		return fmt.Errorf("sqlstore: the call ended while it waited for a transaction of the same key: %w", ctx.Err())
	}
}

// run claims, works and completes in one transaction.
func (c *claim) run(ctx context.Context) (rec retrysafe.Record, err error) {
	// Before a connection is held: to prepare takes one.
	statements, err := c.statements.get(ctx, c.Store, c.queries.load, c.queries.put, c.queries.finish)
	if err != nil {
		return rec, unavailable(c.failed("begin the transaction", err))
	}
	tx, err := c.begin(ctx)
	if err != nil {
		return rec, unavailable(c.failed("begin the transaction", err))
	}
	defer tx.end() // undoes what was not committed, also where work panics
	known := prepared{tx.Tx, statements}
	l, err := c.load(ctx, known, c.queries.load, c.id)
	if err != nil {
		return rec, unavailable(c.failed("claim the key", err))
	}
	now := l.now
	row, won, err := c.decide(l, now)
	if !won {
		return row.Record(c.r.Key, now), err
	}
	rec.Key, rec.Attempt, rec.Fence = c.r.Key, row.Attempt, row.Fence
	if _, err := c.put(ctx, known, &c.r.Key, c.id, &l, &row); err != nil {
		return rec, unavailable(c.failed("claim the key", err))
	}
	state, answer, err := c.callWork(ctx, tx)
	if err != nil {
		return rec, err
	}
	now = c.clock().UnixMicro()
	row, _, err = protocol.Complete(row, now, &retrysafe.CompleteRequest{
		Key: c.r.Key, Owner: row.Owner, Fence: row.Fence, State: state, Answer: answer, Retention: c.r.Retention,
	})
	if err != nil {
		return rec, err
	}
	if err := c.finish(ctx, known, &row); err != nil {
		return rec, err
	}
	if err := c.pass(ctx, dbtx.SQL(tx.Tx, SQLite)); err != nil {
		return rec, err
	}
	if err := tx.commit(ctx); err != nil {
		return c.settle(ctx, tx, rec, err)
	}
	row.Fingerprint, row.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	return row.Record(c.r.Key, now), nil
}

// savepoint has a name that work does not use.
const savepoint = "retrysafe_work"

// callWork runs work once, with a savepoint around it: a final refusal keeps the record without the
// effect, and a savepoint that is gone afterwards betrays a work that has ended the transaction by
// itself.
func (c *claim) callWork(ctx context.Context, tx *writeTx) (state retrysafe.State, answer retrysafe.Answer, err error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return 0, answer, unavailable(c.failed("claim the key", err))
	}
	inside, end := marked(ctx, c.db)
	defer end()
	c.worked = true
	state, answer, err = c.work(inside, tx.Tx)
	if err != nil {
		return 0, answer, err
	}
	steps := []string{"RELEASE " + savepoint}
	if state == retrysafe.StateFailed {
		steps = []string{"ROLLBACK TO " + savepoint, steps[0]}
	}
	for _, step := range steps {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return 0, answer, c.broken(ctx, err)
		}
	}
	return state, answer, nil
}

// finish writes the answer into the record, which must still be this attempt's.
func (c *claim) finish(ctx context.Context, tx execer, row *protocol.Row) error {
	args := append(c.rowArgs(row), c.id[:], row.Owner[:], int64(row.Fence)) //nolint:gosec // fences stay below 2^53
	res, err := tx.ExecContext(ctx, c.queries.finish, args...)
	if err != nil {
		return c.broken(ctx, err)
	}
	n, err := res.RowsAffected()
	if err != nil || n != 1 {
		return c.touched(n)
	}
	return nil
}

// broken is the error of a statement behind the work.
func (c *claim) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: the call ended before its transaction was committed, and all was rolled back: %w", ctx.Err())
	case errors.Is(err, sql.ErrTxDone), strings.Contains(err.Error(), "no such savepoint"):
		c.ended = &endedError{cause: err}
		return c.ended
	}
	return unavailable(c.failed("complete the record", err))
}

// endedError: the work has ended the transaction by itself.
type endedError struct{ cause error }

func (e *endedError) Error() string {
	return "sqlstore: the work has ended the transaction by itself (Commit, Rollback, or a statement that made the database roll back); " +
		"return an error to roll back and nil to commit: " + e.cause.Error()
}

func (e *endedError) Unwrap() []error { return []error{retrysafe.ErrTxEnded, e.cause} }

// committed tells, of a call that was to roll back, whether its claim is there all the same: then
// work has committed, and an error that it returned or a context that ended hide it.
func (c *claim) committed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
	defer cancel()
	l, err := c.look(ctx, c.id)
	return err == nil && l.row.Owner == c.r.Owner && l.row.State == retrysafe.StateInProgress
}

// afterwards puts the record in doubt if work has committed it: its effect, or a part of it, is
// there too.
func (c *claim) afterwards(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	l, err := c.look(ctx, c.id)
	if err == nil && l.row.Owner != c.r.Owner {
		return c.ended
	}
	if err == nil {
		err = c.Release(ctx, retrysafe.ReleaseRequest{
			Key: c.r.Key, Owner: c.r.Owner, Fence: l.row.Fence, InDoubt: true, Cause: "error",
			LastError: "the work committed its transaction by itself",
		})
	}
	return errors.Join(fmt.Errorf("%w: %w", retrysafe.ErrInDoubt, c.ended), err)
}

// unavailable marks a failure of the database before the work, or one that has undone it.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", retrysafe.ErrUnavailable, err)
}
