package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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
	id, err := s.checkKey(ctx, &r.Key)
	if err != nil {
		return storeapi.Record{}, err
	}
	if s.db.Dialect != SQLite {
		return s.runOnServer(ctx, r, work)
	}
	c := &txClaim{store: s, req: &r, id: id, work: work}
	end, rec, err := c.waitForTurn(ctx)
	if end == nil {
		return rec, err
	}
	defer end()
	rec, err = c.runOnce(ctx)
	err = table.WithContextError(ctx, err)
	if err != nil && c.worked && c.ended == nil && c.wasCommitted(ctx) {
		c.ended = &txEndedError{cause: err}
	}
	if c.ended != nil {
		return rec, c.putInDoubt(ctx)
	}
	return rec, err
}

// txClaim is one call of RunTx.
type txClaim struct {
	store *Store
	req   *storeapi.TxRequest
	id    table.RecordID
	work  func(context.Context, *sql.Tx) (storeapi.State, storeapi.Answer, error)
	// isNew means that the key was not looked at, since it is probably new. SQLite, MySQL.
	isNew bool
	// worked reports whether work was called.
	worked bool
	// ended is set if the work has ended the transaction itself. err alone does not show that,
	// since it may be the work's own error.
	ended *txEndedError
}

// decideClaim decides as for any other call. If the record is in doubt, the claim is refused: the
// doubt comes from outside transactions, where the effect may have happened.
func (c *txClaim) decideClaim(l table.Loaded, now protocol.Micros) (next protocol.Row, won bool, err error) {
	next, status, _, err := protocol.Acquire(l.Row, now, l.Floor, &storeapi.AcquireRequest{
		Key: c.req.Key, Owner: c.req.Owner, Fingerprint: c.req.Fingerprint, Binding: c.req.Binding,
		Lease: strayLease, Retention: c.req.Retention, OnDoubt: storeapi.Refuse,
	})
	if err != nil || status == storeapi.StatusFinished {
		return next, false, err
	}
	if status == storeapi.StatusAcquired && l.Row.State == storeapi.StateInProgress && l.Row.Owner == c.req.Owner {
		// this work has committed the transaction itself before
		return l.Row, false, storeapi.ErrInDoubt
	}
	answer := storeapi.Acquired{Status: status}
	return next, status == storeapi.StatusAcquired, answer.Err()
}

// waitForTurn waits until no transaction of the key runs in this process. If end is nil, there is
// nothing to run, and rec and err are the answer.
func (c *txClaim) waitForTurn(ctx context.Context) (end func(), rec storeapi.Record, err error) {
	var limit <-chan time.Time
	if c.req.Wait > 0 {
		t := time.NewTimer(c.req.Wait)
		defer t.Stop()
		limit = t.C
	}
	for {
		if other := c.store.runningTxs.runningTx(c.id); other != nil {
			if err := c.awaitOther(ctx, other, limit); err != nil {
				return nil, storeapi.Record{Key: c.req.Key}, err
			}
		}
		if c.isNew = c.store.queue.Seen.GuessNew(c.id); !c.isNew {
			l, err := c.store.queue.LookUp(ctx, c.id)
			if err != nil {
				return nil, storeapi.Record{}, unavailableError(err)
			}
			c.store.queue.Seen.LearnNew(l.Row.State == 0)
			if row, won, err := c.decideClaim(l, l.Now); !won {
				return nil, row.Record(c.req.Key, l.Now), err
			}
		}
		if end, ok := c.store.runningTxs.beginKey(c.id); ok {
			return end, storeapi.Record{}, nil
		}
	}
}

func (c *txClaim) awaitOther(ctx context.Context, other <-chan struct{}, limit <-chan time.Time) error {
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

// runOnce claims the key, runs the work and completes the record in one transaction.
func (c *txClaim) runOnce(ctx context.Context) (rec storeapi.Record, err error) {
	q := c.store.db.Statements.Load()
	// Before a connection is held: preparing takes one.
	statements, err := c.store.db.Cache.PrepareAll(ctx, c.store.db, q.ClaimAt, q.LoadRow, q.UpdateRow, q.InsertRow, q.FinishAttempt, beginWork, endWork)
	if err != nil {
		return rec, unavailableError(c.store.db.CallerError("begin the transaction", err))
	}
	var j *txRecord
	var won bool
	var answer error
	tx, err := c.store.db.BeginWriteWith(ctx, func(tx *sql.Tx) error {
		j = &txRecord{claim: c, tx: dbtx.SQL(statements.Within(tx), SQLite)}
		rec, won, answer = j.claimKey(ctx)
		if held, ok := answer.(*keyHeldError); ok { //nolint:errorlint // claimKey wraps nothing around it
			return held.cause
		}
		return nil
	})
	if err != nil {
		return storeapi.Record{}, unavailableError(c.store.db.CallerError("begin the transaction", err))
	}
	defer tx.Close() // rolls back what was not committed, also if work panics
	if c.isNew {
		c.store.queue.Seen.LearnNew(won)
	}
	if !won {
		return rec, answer
	}
	state, result, err := c.callWork(ctx, statements.Within(tx.Tx))
	if err != nil {
		return rec, err
	}
	done, err := j.completeRecord(ctx, state, result)
	if err != nil {
		return rec, err
	}
	if err := tx.Commit(ctx); err != nil {
		return c.settleCommit(ctx, tx, rec, err)
	}
	return done, nil
}

// callWork runs work once, within a savepoint. After a final refusal it keeps the record and undoes
// the effect. A missing savepoint afterwards means that work has ended the transaction itself.
func (c *txClaim) callWork(ctx context.Context, tx table.PreparedTx) (state storeapi.State, answer storeapi.Answer, err error) {
	if _, err := tx.ExecContext(ctx, beginWork); err != nil {
		return 0, answer, unavailableError(c.store.db.CallerError("claim the key", err))
	}
	inside, end := markContext(ctx, c.store.db.Pool)
	defer end()
	c.worked = true
	state, answer, err = c.work(inside, tx.Tx)
	if err != nil {
		if c.ended = sqliteOutsideTxError(ctx, tx, err); c.ended != nil {
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
			return 0, answer, c.brokenError(ctx, err)
		}
	}
	return state, answer, nil
}

// brokenError returns the error for a statement that failed after the work.
func (c *txClaim) brokenError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: the call ended before its transaction was committed, and all was rolled back: %w", ctx.Err())
	case table.EndedByWork(err):
		c.ended = &txEndedError{cause: err, statementsFollowed: !errors.Is(err, sql.ErrTxDone)}
		return c.ended
	}
	return unavailableError(c.store.db.CallerError("complete the record", err))
}

// commitFailed returns the error for a COMMIT that was refused: everything was rolled back.
func (c *txClaim) commitFailed(failed error) error {
	if table.CausedByWork(failed) {
		return fmt.Errorf("%w: %w", storeapi.ErrCommitRefused, failed)
	}
	return unavailableError(c.store.db.CallerError("COMMIT has failed, and all was rolled back", failed))
}

// wasCommitted reports, for a call that should have rolled back, whether its claim exists
// nevertheless. If so, the work has committed, hidden by its own error or by an ended context.
func (c *txClaim) wasCommitted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), table.Slack)
	defer cancel()
	l, err := c.store.queue.LookUp(ctx, c.id)
	return err == nil && l.Row.Owner == c.req.Owner && l.Row.State == storeapi.StateInProgress
}

// unavailableError marks a failure of the database that came before the work, or that has undone
// it.
func unavailableError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", storeapi.ErrUnavailable, err)
}

// settleCommit finds out the outcome of a COMMIT that failed: the holder of the write lock sees
// what was committed, and the rest never will be.
func (c *txClaim) settleCommit(ctx context.Context, tx *table.WriteTx, rec storeapi.Record, failed error) (storeapi.Record, error) {
	tx.RollBack() // ends whatever the connection still holds
	whole := context.WithoutCancel(ctx)
	var l table.Loaded
	now := c.store.db.Clock().UnixMicro()
	wait, cancel := c.store.db.NewPatience(whole, time.Time{})
	defer cancel()
	err := c.store.db.WriteInTurn(wait, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		var err error
		l, err = c.store.db.LoadRecord(ctx, w, c.store.db.Statements.Load().LockRow, c.id)
		return false, err
	})
	if err != nil {
		return rec, fmt.Errorf("%w: COMMIT has failed, and its outcome is unknown: %w",
			storeapi.ErrUnconfirmed, errors.Join(c.store.db.CallerError("commit", failed), c.store.db.CallerError("look for the record", err)))
	}
	switch {
	case l.Row.Owner == c.req.Owner && l.Row.State.Finished():
		return l.Row.Record(c.req.Key, now), nil
	case l.Row.Owner == c.req.Owner && l.Row.State != 0:
		c.ended = &txEndedError{cause: failed}
		return rec, c.ended
	case ctx.Err() != nil:
		return rec, c.brokenError(ctx, failed)
	}
	return rec, c.commitFailed(failed)
}

// putInDoubt puts the record in doubt if a part of the effect may have been committed: the work has
// committed the claim, or has written after it had rolled it back.
func (c *txClaim) putInDoubt(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	l, err := c.store.queue.LookUp(ctx, c.id)
	fence, what := l.Row.Fence, "the work committed its transaction by itself"
	if err == nil && l.Row.Owner != c.req.Owner {
		if !c.ended.statementsFollowed {
			return c.ended
		}
		what = "the work rolled its transaction back by itself, and what it wrote after that may stand"
		if fence, err = c.claimAgain(ctx); err == nil && fence == 0 {
			return c.ended // another attempt has the key already
		}
	}
	if err == nil {
		err = c.store.Release(ctx, storeapi.ReleaseRequest{
			Key: c.req.Key, Owner: c.req.Owner, Fence: fence, InDoubt: true, Cause: "error", LastError: what,
		})
	}
	return errors.Join(fmt.Errorf("%w: %w", storeapi.ErrInDoubt, c.ended), err)
}

// claimAgain claims the key outside of any transaction. It returns zero if another attempt has it.
func (c *txClaim) claimAgain(ctx context.Context) (storeapi.Fence, error) {
	got, err := c.store.Acquire(ctx, storeapi.AcquireRequest{
		Key: c.req.Key, Owner: c.req.Owner, Fingerprint: c.req.Fingerprint, Binding: c.req.Binding,
		Lease: strayLease, Retention: c.req.Retention, OnDoubt: storeapi.Refuse,
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
	if s.db.Dialect == SQLite {
		return call, func() {}
	}
	limit = min(limit, table.LongestWait)
	long := limit
	if s.db.Dialect == MySQL {
		long += 3 * table.Slack // the server counts in whole seconds
	}
	ctx, cancel := context.WithTimeout(call, long)
	return ctx, func() {
		if *err != nil && ctx.Err() != nil && call.Err() == nil {
			*err = unavailableError(s.db.WaitedInVain(limit, nil))
		}
		cancel()
	}
}

// runOnServer is RunTx for databases with many concurrent writers.
func (s *Store) runOnServer(ctx context.Context, r storeapi.TxRequest, work func(context.Context, *sql.Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	return s.RunOn(ctx, r, s.transactionOpener(r.Wait), func(ctx context.Context, tx dbtx.Tx) (storeapi.State, storeapi.Answer, error) {
		return work(ctx, sqlTxOf(tx))
	})
}

// transactionOpener returns a function that opens transactions of database/sql. Their first
// statement waits for locks for at most wait.
func (s *Store) transactionOpener(wait time.Duration) func(context.Context) (Transaction, error) {
	return func(ctx context.Context) (Transaction, error) {
		if s.db.Dialect == MySQL {
			return s.db.OpenMySQL(ctx, wait)
		}
		tx, err := s.db.Pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return nil, err
		}
		return standardTx{dbtx.SQL(tx, s.db.Dialect), tx}, nil
	}
}

// sqlTxOf returns the database/sql transaction within tx, which transactionOpener has opened.
func sqlTxOf(tx dbtx.Tx) *sql.Tx {
	if tx, ok := tx.(*table.MySQLTx); ok {
		return tx.SQLTx
	}
	return tx.(standardTx).tx //nolint:errcheck,forcetypeassert // transactionOpener makes no other
}

// standardTx is a transaction of database/sql.
type standardTx struct {
	dbtx.Tx
	tx *sql.Tx
}

func (t standardTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t standardTx) Rollback(context.Context) error { return t.tx.Rollback() }

// Transaction is a transaction that RunOn has begun. RunOn calls Commit or Rollback once; a
// Rollback after that returns an error that wraps sql.ErrTxDone. If it has a method Ended() bool
// that reports whether the server has no transaction open, work that has ended the transaction by
// SQL text is noticed.
type Transaction interface {
	dbtx.Tx
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// LastStatement is implemented by a [Transaction] that can send its last statement and COMMIT in
// one message. It is optional, and saves a round trip.
type LastStatement interface {
	// ExecCommit runs a statement and commits. If the server has refused the statement, refused is
	// true, and nothing was committed. After another error it is unknown what was committed, as
	// after an error of Commit.
	ExecCommit(ctx context.Context, query string, args ...any) (refused bool, err error)
}

// RunOn is RunTx for adapters of other drivers. begin opens a transaction at READ COMMITTED on the
// store's database. Applications use the adapter (adapters/pgxidem). RunOn works on servers only.
func (s *Store) RunOn(ctx context.Context, r storeapi.TxRequest, begin func(context.Context) (Transaction, error),
	work func(context.Context, dbtx.Tx) (storeapi.State, storeapi.Answer, error),
) (storeapi.Record, error) {
	id, err := s.checkKey(ctx, &r.Key)
	if err != nil {
		return storeapi.Record{}, err
	}
	classify, err := s.errorClassifier("RunOn", "RunTx")
	if err != nil {
		return storeapi.Record{}, err
	}
	c := &serverClaim{claim: &txClaim{store: s, req: &r, id: id}, begin: begin, work: work, classifyError: classify}
	end, rec, err := c.waitForTurn(ctx)
	if end == nil {
		return rec, err
	}
	defer end()
	c.claim.isNew = s.db.Statements.Load().ClaimOnce != "" && s.queue.Seen.GuessNew(c.claim.id)
	rec, err = c.runTries(ctx)
	if err != nil && c.claim.worked && c.claim.ended == nil && !errors.Is(err, storeapi.ErrUnconfirmed) && c.claim.wasCommitted(ctx) {
		c.claim.ended = &txEndedError{cause: err}
	}
	if c.claim.ended != nil {
		return rec, c.claim.putInDoubt(ctx)
	}
	return rec, err
}

// errorClassifier returns the function that classifies a server's errors. SQLite is no server and
// has another call.
func (s *Store) errorClassifier(call, instead string) (func(error) table.ErrorClass, error) {
	classify, ok := s.db.ServerErrorClassifier()
	if !ok {
		return nil, fmt.Errorf("sqlstore: %s is for servers; use %s on %s: %w", call, instead, s.db.Dialect, errors.ErrUnsupported)
	}
	return classify, nil
}

// serverClaim is one call of RunOn.
type serverClaim struct {
	claim         *txClaim
	begin         func(context.Context) (Transaction, error)
	work          func(context.Context, dbtx.Tx) (storeapi.State, storeapi.Answer, error)
	classifyError func(error) table.ErrorClass
}

// waitForTurn waits, without a connection, until no transaction of the key runs in this process. If
// end is nil, err is the answer.
func (c *serverClaim) waitForTurn(ctx context.Context) (end func(), rec storeapi.Record, err error) {
	var limit <-chan time.Time
	if c.claim.req.Wait > 0 {
		t := time.NewTimer(c.claim.req.Wait)
		defer t.Stop()
		limit = t.C
	}
	for {
		if other := c.claim.store.runningTxs.runningTx(c.claim.id); other != nil {
			if rec, ok := c.claim.committedAnswer(ctx); ok {
				return nil, rec, nil
			}
			if err := c.claim.awaitOther(ctx, other, limit); err != nil {
				return nil, storeapi.Record{Key: c.claim.req.Key}, err
			}
		}
		if end, ok := c.claim.store.runningTxs.beginKey(c.claim.id); ok {
			return end, storeapi.Record{}, nil
		}
	}
}

// runTries runs the transaction. It tries again if the transaction certainly had no effect: always
// if work was not called yet, and as often as the caller allows afterwards.
func (c *serverClaim) runTries(ctx context.Context) (rec storeapi.Record, err error) {
	wait, cancel := c.claim.store.db.NewPatience(ctx, time.Time{})
	defer cancel()
	for lost, again := 0, 0; ; {
		worked := c.claim.worked
		rec, err = c.runOnce(ctx, nil)
		class := c.classifyError(err)
		switch {
		case c.claim.ended != nil, err == nil, errors.Is(err, storeapi.ErrUnconfirmed), errors.Is(err, storeapi.ErrTxEnded), class != table.Blocked && class != table.OnlyLost:
			return rec, err
		case c.claim.worked && (class != table.Blocked || again >= c.claim.req.Retries):
			return rec, err
		case c.claim.worked:
			again++
			c.claim.worked = worked
			if !sqlkit.Pause(ctx) {
				return rec, err
			}
			continue
		case class == table.OnlyLost && (lost == table.LostConnections || !errors.Is(err, storeapi.ErrUnavailable)):
			return rec, err
		case class == table.OnlyLost:
			lost++
		}
		if !sqlkit.Pause(wait) {
			return rec, err
		}
	}
}

// refusal is the outcome of work that refused for good. Its effect is undone, and a separate
// transaction stores the answer.
type refusal struct{ answer storeapi.Answer }

// runOnce runs one transaction.
func (c *serverClaim) runOnce(ctx context.Context, refused *refusal) (rec storeapi.Record, err error) {
	tx, err := c.begin(ctx)
	if err != nil {
		return rec, unavailableError(c.claim.store.db.CallerError("begin the transaction", err))
	}
	open := true
	undo := func() error {
		if !open {
			return nil
		}
		open = false
		return rollBackTx(ctx, tx)
	}
	defer undo() //nolint:errcheck // also if work panics
	j := &txRecord{claim: c.claim, tx: tx}
	rec, won, err := c.claimKey(ctx, j)
	if err == errBeginAgain { //nolint:errorlint // claimKey wraps nothing around it
		_ = undo()
		return c.runOnce(ctx, refused)
	}
	if _, ok := err.(*keyHeldError); ok { //nolint:errorlint // claimKey wraps nothing around it
		_ = undo()
		return c.answerHeld(ctx)
	}
	if !won {
		return rec, err
	}
	var state storeapi.State
	var answer storeapi.Answer
	if refused != nil {
		state, answer = storeapi.StateFailed, refused.answer
	} else {
		if state, answer, err = c.callWork(ctx, j); err != nil {
			if gone := undo(); errors.Is(gone, sql.ErrTxDone) && ctx.Err() == nil && c.claim.ended == nil {
				c.claim.ended = &txEndedError{cause: err}
			}
			return rec, err
		}
		if state == storeapi.StateFailed {
			if gone := undo(); errors.Is(gone, sql.ErrTxDone) && ctx.Err() == nil {
				c.claim.ended = &txEndedError{cause: gone}
				return rec, c.claim.ended
			}
			return c.runOnce(ctx, &refusal{answer})
		}
	}
	commit, done, err := c.prepareCommit(ctx, j, state, answer)
	if err != nil {
		return rec, err
	}
	open = false
	if refused, err := commit(ctx); err != nil {
		return c.answerUncommitted(ctx, tx, rec, done, refused, err)
	}
	return done, nil
}

// claimKey claims the key. Afterwards the session has its own settings for the work.
func (c *serverClaim) claimKey(ctx context.Context, j *txRecord) (rec storeapi.Record, won bool, err error) {
	isNew := c.claim.isNew
	rec, won, err = j.claimKey(ctx)
	if isNew {
		c.claim.store.queue.Seen.LearnNew(won)
	}
	if t, ok := j.tx.(*table.MySQLTx); ok && won {
		if err := t.RestoreWaits(ctx); err != nil {
			return rec, false, unavailableError(c.claim.store.db.CallerError("claim the key", err))
		}
	}
	return rec, won, err
}

// answerUncommitted is the answer after a COMMIT that failed, or whose last statement was refused.
func (c *serverClaim) answerUncommitted(ctx context.Context, tx Transaction, rec, done storeapi.Record, refused bool, failed error) (storeapi.Record, error) {
	_ = rollBackTx(ctx, tx) // returns the connection to the pool
	if refused && table.FinishedNone(failed) {
		return rec, c.claim.recordTouched(0) // see FinishOrFail
	}
	return c.settleCommit(ctx, rec, done, failed)
}

// prepareCommit completes the record and returns a function that commits, and the record as it then
// is. If the transaction can, that function completes the record too, and reports whether the
// server has refused that.
func (c *serverClaim) prepareCommit(ctx context.Context, j *txRecord, state storeapi.State, answer storeapi.Answer) (commit func(context.Context) (bool, error), done storeapi.Record, err error) {
	tx := j.tx.(Transaction) //nolint:errcheck,forcetypeassert // RunOn has begun it
	last, can := tx.(LastStatement)
	if query := c.claim.store.db.Statements.Load().FinishOrFail; can && query != "" {
		row, done, err := j.completedRow(state, answer)
		return func(ctx context.Context) (bool, error) {
			return last.ExecCommit(ctx, query, table.FinishArgs(c.claim.id, &row)...)
		}, done, err
	}
	done, err = j.completeRecord(ctx, state, answer)
	if touched := touchedError(""); errors.As(err, &touched) {
		if c.claim.ended = c.outsideTxError(ctx, j, nil); c.claim.ended != nil {
			err = c.claim.ended
		}
	}
	return func(ctx context.Context) (bool, error) { return false, tx.Commit(ctx) }, done, err
}

// answerHeld returns the answer if another caller has the key, or an error if it cannot be read:
// then the whole table is locked.
func (c *serverClaim) answerHeld(ctx context.Context) (storeapi.Record, error) {
	none := storeapi.Record{Key: c.claim.req.Key}
	l, err := c.claim.store.queue.LookUp(ctx, c.claim.id)
	if err != nil {
		return none, unavailableError(err)
	}
	if rec, ok := c.claim.answerIn(l); ok {
		return rec, nil
	}
	return none, storeapi.ErrInProgress
}

// rollBackTx rolls a transaction back, also if ctx has ended. It does not wait for a server that
// does not answer: the server rolls back once it notices that the client is gone.
func rollBackTx(ctx context.Context, tx Transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), table.Slack)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- tx.Rollback(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // it may have ended at the same moment
	case err := <-done:
		return err
	default:
		return ctx.Err()
	}
}

func (c *serverClaim) callWork(ctx context.Context, j *txRecord) (storeapi.State, storeapi.Answer, error) {
	inside, end := markContext(ctx, c.claim.store.db.Pool)
	defer end()
	c.claim.worked = true
	state, answer, err := c.work(inside, j.tx)
	switch {
	case hasEnded(j.tx):
		c.claim.ended = &txEndedError{cause: cmp.Or(err, sql.ErrTxDone), statementsFollowed: true}
	case err != nil, state == storeapi.StateFailed:
		c.claim.ended = c.outsideTxError(ctx, j, cmp.Or(err, errRefusal))
	}
	if c.claim.ended != nil {
		return 0, storeapi.Answer{}, c.claim.ended
	}
	return state, answer, err
}

// hasEnded reports whether the work has ended the transaction by SQL text, such as "COMMIT". It is
// false if the driver does not know.
func hasEnded(tx dbtx.Tx) bool {
	t, ok := tx.(interface{ Ended() bool })
	return ok && t.Ended()
}

// settleCommit finds out the outcome of a COMMIT that failed. If the server has refused it,
// everything was rolled back. Otherwise settleCommit claims the key again: that waits for the first
// transaction, and then finds its record or none.
func (c *serverClaim) settleCommit(ctx context.Context, rec, done storeapi.Record, failed error) (storeapi.Record, error) {
	if c.classifyError(failed) == table.OnlyLost && !errors.Is(failed, sql.ErrTxDone) {
		committed, err := c.claimAgain(context.WithoutCancel(ctx))
		if err != nil {
			return rec, fmt.Errorf("%w: COMMIT has failed, and its outcome is unknown: %w",
				storeapi.ErrUnconfirmed, errors.Join(c.claim.store.db.CallerError("commit", failed), c.claim.store.db.CallerError("look for the record", err)))
		}
		if committed {
			return done, nil
		}
	}
	if table.CausedByWork(failed) && ctx.Err() == nil {
		return rec, c.claim.commitFailed(failed)
	}
	return rec, c.claim.brokenError(ctx, failed)
}

// claimAgain reports whether the first transaction was committed. It returns true only after a
// COMMIT of its own was answered: before that, PostgreSQL's synchronous replicas may not have the
// first one.
func (c *serverClaim) claimAgain(ctx context.Context) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.claim.store.db.LockWait+table.Slack)
	defer cancel()
	again := *c.claim.req
	again.Wait = c.claim.store.db.LockWait
	second := &txClaim{store: c.claim.store, req: &again, id: c.claim.id}
	for lost := 0; ; lost++ {
		tx, err := c.begin(ctx)
		if err == nil {
			j := &txRecord{claim: second, tx: tx}
			var rec storeapi.Record
			var won bool
			rec, won, err = j.claimKey(ctx)
			mine := !won && rec.Owner == c.claim.req.Owner && rec.State.Finished()
			if mine {
				if _, err = tx.Exec(ctx, c.claim.store.db.Statements.Load().ConfirmRow, c.claim.id[:]); err == nil {
					err = tx.Commit(ctx)
				}
			}
			if !mine || err != nil {
				_ = rollBackTx(ctx, tx)
			}
			if mine && err == nil || !mine && (won || rec.State != 0) {
				return mine, nil
			}
			if _, held := err.(*keyHeldError); held { //nolint:errorlint // claimKey wraps nothing around it
				known, ok := second.committedAnswer(ctx)
				if ok && known.Owner != c.claim.req.Owner {
					return false, nil
				}
				if ok && sqlkit.Pause(ctx) {
					continue // another call holds the key only to read it
				}
				return false, storeapi.ErrInProgress
			}
		}
		if lost == table.LostConnections || c.classifyError(err) != table.OnlyLost || !sqlkit.Pause(ctx) {
			return false, err
		}
	}
}

// outsideTxError returns an error if the work, which has returned failed (nil: nothing shows that
// it has), had ended the transaction by SQL text, so that what it wrote afterwards may stand. It
// asks the server, and only after work that is not to be committed.
func (c *serverClaim) outsideTxError(ctx context.Context, j *txRecord, failed error) *txEndedError {
	q := c.claim.store.db.Statements.Load()
	var args []any
	if q.HasLeftSince {
		args = []any{j.now}
	}
	var outside bool
	if err := j.tx.QueryRow(ctx, q.HasLeft, args, &outside); err != nil || !outside {
		return nil // after a failed statement PostgreSQL answers none, and has the transaction open
	}
	if failed == nil {
		failed = errors.New("its record is not there")
	}
	return &txEndedError{cause: failed, statementsFollowed: true}
}

// txEndedError means that the work has ended the transaction itself.
type txEndedError struct {
	cause error
	// statementsFollowed means that statements could follow, as after ROLLBACK as text. Each has
	// committed on its own.
	statementsFollowed bool
}

func (e *txEndedError) Error() string {
	text := "sqlstore: the work has ended the transaction by itself (Commit, Rollback, or a statement that made the database roll back)"
	if e.statementsFollowed {
		text += ", and what it has written after that may stand"
	}
	return text + "; return an error to roll back and nil to commit: " + e.cause.Error()
}

func (e *txEndedError) Unwrap() []error { return []error{storeapi.ErrTxEnded, e.cause} }

// sqliteOutsideTxError returns an error if work that has returned err on SQLite had ended the
// transaction before: its savepoint is gone. It returns nil if the database has ended it, and err
// says so.
func sqliteOutsideTxError(ctx context.Context, tx sqlkit.Execer, err error) *txEndedError {
	if table.UndoneBySQLite(err) {
		return nil
	}
	_, gone := tx.ExecContext(ctx, endWork)
	if gone == nil || ctx.Err() != nil || errors.Is(gone, sql.ErrTxDone) || !table.EndedByWork(gone) {
		return nil
	}
	return &txEndedError{cause: err, statementsFollowed: true}
}

// savepoint is a name that the work does not use.
const (
	savepoint = "retrysafe_work"
	beginWork = "SAVEPOINT " + savepoint
	endWork   = "RELEASE " + savepoint
)

// errRefusal undoes the effect of work that refused for good. No caller gets it.
var errRefusal = errors.New("sqlstore: a final refusal")

// runningTxs has the keys whose transactions run in this process. No other connection can see them,
// since they are not committed.
type runningTxs struct {
	mu   sync.Mutex
	keys map[table.RecordID]chan struct{} // closed when the transaction has ended
}

// runningTx returns a channel that is closed when the transaction of id ends, or nil if none runs.
func (r *runningTxs) runningTx(id table.RecordID) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[id]
}

// beginKey registers a transaction for id, unless one is running.
func (r *runningTxs) beginKey(id table.RecordID) (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[id] != nil {
		return nil, false
	}
	done := make(chan struct{})
	r.keys[id] = done
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.keys, id)
		close(done)
	}, true
}

// strayLease is the lease of a record that the work has committed itself. If this process dies
// before it corrects the record, the record looks as if it were in progress for that long. If a
// transaction ends properly, no other process ever sees its lease.
const strayLease = 30 * time.Second
