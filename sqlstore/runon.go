package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

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
	if err := s.check(ctx, &r.Key); err != nil {
		return storeapi.Record{}, err
	}
	fateOf, err := s.fates("RunOn", "RunTx")
	if err != nil {
		return storeapi.Record{}, err
	}
	c := &serverClaim{claim: &claim{store: s, r: &r, id: idOf(r.Key)}, begin: begin, work: work, fateOf: fateOf}
	end, rec, err := c.queue(ctx)
	if end == nil {
		return rec, err
	}
	defer end()
	c.claim.isNew = s.db.queries().claimOnce != "" && s.seen.isNew(c.claim.id)
	rec, err = c.run(ctx)
	if err != nil && c.claim.worked && c.claim.ended == nil && !errors.Is(err, storeapi.ErrUnconfirmed) && c.claim.committed(ctx) {
		c.claim.ended = &endedError{cause: err}
	}
	if c.claim.ended != nil {
		return rec, c.claim.afterwards(ctx)
	}
	return rec, err
}

// fates returns the function that classifies a server's errors. SQLite is no server and has another
// call.
func (s *Store) fates(call, instead string) (func(error) fate, error) {
	on, ok := s.backend.(interface{ fateOf(error) fate })
	if !ok {
		return nil, fmt.Errorf("sqlstore: %s is for servers; use %s on %s: %w", call, instead, s.db.dialect, errors.ErrUnsupported)
	}
	return on.fateOf, nil
}

// serverClaim is one call of RunOn.
type serverClaim struct {
	claim  *claim
	begin  func(context.Context) (Transaction, error)
	work   func(context.Context, dbtx.Tx) (storeapi.State, storeapi.Answer, error)
	fateOf func(error) fate
}

// queue waits, without a connection, until no transaction of the key runs in this process. If end
// is nil, err is the answer.
func (c *serverClaim) queue(ctx context.Context) (end func(), rec storeapi.Record, err error) {
	var limit <-chan time.Time
	if c.claim.r.Wait > 0 {
		t := time.NewTimer(c.claim.r.Wait)
		defer t.Stop()
		limit = t.C
	}
	for {
		if other := c.claim.store.running.other(c.claim.id); other != nil {
			if rec, ok := c.claim.answered(ctx); ok {
				return nil, rec, nil
			}
			if err := c.claim.await(ctx, other, limit); err != nil {
				return nil, storeapi.Record{Key: c.claim.r.Key}, err
			}
		}
		if end, ok := c.claim.store.running.begin(c.claim.id); ok {
			return end, storeapi.Record{}, nil
		}
	}
}

// run runs the transaction. It tries again if the transaction certainly had no effect: always if
// work was not called yet, and as often as the caller allows afterwards.
func (c *serverClaim) run(ctx context.Context) (rec storeapi.Record, err error) {
	wait, cancel := c.claim.store.db.patience(ctx, time.Time{})
	defer cancel()
	for lost, again := 0, 0; ; {
		worked := c.claim.worked
		rec, err = c.once(ctx, nil)
		fate := c.fateOf(err)
		switch {
		case c.claim.ended != nil, err == nil, errors.Is(err, storeapi.ErrUnconfirmed), errors.Is(err, storeapi.ErrTxEnded), fate != blocked && fate != onlyLost:
			return rec, err
		case c.claim.worked && (fate != blocked || again >= c.claim.r.Retries):
			return rec, err
		case c.claim.worked:
			again++
			c.claim.worked = worked
			if !sqlkit.Pause(ctx) {
				return rec, err
			}
			continue
		case fate == onlyLost && (lost == lostConnections || !errors.Is(err, storeapi.ErrUnavailable)):
			return rec, err
		case fate == onlyLost:
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

// once runs one transaction.
func (c *serverClaim) once(ctx context.Context, refused *refusal) (rec storeapi.Record, err error) {
	tx, err := c.begin(ctx)
	if err != nil {
		return rec, unavailable(c.claim.store.db.failed("begin the transaction", err))
	}
	open := true
	undo := func() error {
		if !open {
			return nil
		}
		open = false
		return rollback(ctx, tx)
	}
	defer undo() //nolint:errcheck // also if work panics
	j := &joint{claim: c.claim, tx: tx}
	rec, won, err := c.take(ctx, j)
	if err == errBeginAgain { //nolint:errorlint // take wraps nothing around it
		_ = undo()
		return c.once(ctx, refused)
	}
	if _, ok := err.(*heldError); ok { //nolint:errorlint // take wraps nothing around it
		_ = undo()
		return c.held(ctx)
	}
	if !won {
		return rec, err
	}
	var state storeapi.State
	var answer storeapi.Answer
	if refused != nil {
		state, answer = storeapi.StateFailed, refused.answer
	} else {
		if state, answer, err = c.call(ctx, j); err != nil {
			if gone := undo(); errors.Is(gone, sql.ErrTxDone) && ctx.Err() == nil && c.claim.ended == nil {
				c.claim.ended = &endedError{cause: err}
			}
			return rec, err
		}
		if state == storeapi.StateFailed {
			if gone := undo(); errors.Is(gone, sql.ErrTxDone) && ctx.Err() == nil {
				c.claim.ended = &endedError{cause: gone}
				return rec, c.claim.ended
			}
			return c.once(ctx, &refusal{answer})
		}
	}
	commit, done, err := c.commit(ctx, j, state, answer)
	if err != nil {
		return rec, err
	}
	open = false
	if refused, err := commit(ctx); err != nil {
		return c.uncommitted(ctx, tx, rec, done, refused, err)
	}
	return done, nil
}

// take claims the key. Afterwards the session has its own settings for the work.
func (c *serverClaim) take(ctx context.Context, j *joint) (rec storeapi.Record, won bool, err error) {
	isNew := c.claim.isNew
	rec, won, err = j.take(ctx)
	if isNew {
		c.claim.store.seen.was(won)
	}
	if t, ok := j.tx.(interface{ claimed(context.Context) error }); ok && won {
		if err := t.claimed(ctx); err != nil {
			return rec, false, unavailable(c.claim.store.db.failed("claim the key", err))
		}
	}
	return rec, won, err
}

// uncommitted is the answer after a COMMIT that failed, or whose last statement was refused.
func (c *serverClaim) uncommitted(ctx context.Context, tx Transaction, rec, done storeapi.Record, refused bool, failed error) (storeapi.Record, error) {
	_ = rollback(ctx, tx) // returns the connection to the pool
	if refused && dberr.SQLState(failed) == stateDivision {
		return rec, c.claim.touched(0) // see finishOne
	}
	return c.settle(ctx, rec, done, failed)
}

// commit completes the record and returns a function that commits, and the record as it then is. If
// the transaction can, that function completes the record too, and reports whether the server has
// refused that.
func (c *serverClaim) commit(ctx context.Context, j *joint, state storeapi.State, answer storeapi.Answer) (commit func(context.Context) (bool, error), done storeapi.Record, err error) {
	tx := j.tx.(Transaction) //nolint:errcheck,forcetypeassert // RunOn has begun it
	last, can := tx.(LastStatement)
	if query := c.claim.store.db.queries().finishOne; can && query != "" {
		row, done, err := j.completed(state, answer)
		return func(ctx context.Context) (bool, error) {
			return last.ExecCommit(ctx, query, finishArgs(c.claim.id, &row)...)
		}, done, err
	}
	done, err = j.complete(ctx, state, answer)
	if touched := touchedError(""); errors.As(err, &touched) {
		if c.claim.ended = c.left(ctx, j, nil); c.claim.ended != nil {
			err = c.claim.ended
		}
	}
	return func(ctx context.Context) (bool, error) { return false, tx.Commit(ctx) }, done, err
}

// held returns the answer if another caller has the key, or an error if it cannot be read: then the
// whole table is locked.
func (c *serverClaim) held(ctx context.Context) (storeapi.Record, error) {
	none := storeapi.Record{Key: c.claim.r.Key}
	l, err := c.claim.store.look(ctx, c.claim.id)
	if err != nil {
		return none, unavailable(err)
	}
	if rec, ok := c.claim.answerIn(l); ok {
		return rec, nil
	}
	return none, storeapi.ErrInProgress
}

// rollback rolls a transaction back, also if ctx has ended. It does not wait for a server that does
// not answer: the server rolls back once it notices that the client is gone.
func rollback(ctx context.Context, tx Transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
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

func (c *serverClaim) call(ctx context.Context, j *joint) (storeapi.State, storeapi.Answer, error) {
	inside, end := marked(ctx, c.claim.store.db.pool)
	defer end()
	c.claim.worked = true
	state, answer, err := c.work(inside, j.tx)
	switch {
	case hasEnded(j.tx):
		c.claim.ended = &endedError{cause: cmp.Or(err, sql.ErrTxDone), loose: true}
	case err != nil, state == storeapi.StateFailed:
		c.claim.ended = c.left(ctx, j, cmp.Or(err, errRefusal))
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

// settle finds out the outcome of a COMMIT that failed. If the server has refused it, everything
// was rolled back. Otherwise settle claims the key again: that waits for the first transaction, and
// then finds its record or none.
func (c *serverClaim) settle(ctx context.Context, rec, done storeapi.Record, failed error) (storeapi.Record, error) {
	if c.fateOf(failed) == onlyLost && !errors.Is(failed, sql.ErrTxDone) {
		committed, err := c.claimAgain(context.WithoutCancel(ctx))
		if err != nil {
			return rec, fmt.Errorf("%w: COMMIT has failed, and nobody can say what became of it: %w",
				storeapi.ErrUnconfirmed, errors.Join(c.claim.store.db.failed("commit", failed), c.claim.store.db.failed("look for the record", err)))
		}
		if committed {
			return done, nil
		}
	}
	if ofTheWork(failed) && ctx.Err() == nil {
		return rec, c.claim.commitFailed(failed)
	}
	return rec, c.claim.broken(ctx, failed)
}

// claimAgain reports whether the first transaction was committed. It returns true only after a
// COMMIT of its own was answered: before that, PostgreSQL's synchronous replicas may not have the
// first one.
func (c *serverClaim) claimAgain(ctx context.Context) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.claim.store.db.lockWait+slack)
	defer cancel()
	again := *c.claim.r
	again.Wait = c.claim.store.db.lockWait
	second := &claim{store: c.claim.store, r: &again, id: c.claim.id}
	for lost := 0; ; lost++ {
		tx, err := c.begin(ctx)
		if err == nil {
			j := &joint{claim: second, tx: tx}
			var rec storeapi.Record
			var won bool
			rec, won, err = j.take(ctx)
			mine := !won && rec.Owner == c.claim.r.Owner && rec.State.Finished()
			if mine {
				if _, err = tx.Exec(ctx, c.claim.store.db.queries().confirm, c.claim.id[:]); err == nil {
					err = tx.Commit(ctx)
				}
			}
			if !mine || err != nil {
				_ = rollback(ctx, tx)
			}
			if mine && err == nil || !mine && (won || rec.State != 0) {
				return mine, nil
			}
			if _, held := err.(*heldError); held { //nolint:errorlint // take wraps nothing around it
				known, ok := second.answered(ctx)
				if ok && known.Owner != c.claim.r.Owner {
					return false, nil
				}
				if ok && sqlkit.Pause(ctx) {
					continue // another call holds the key only to read it
				}
				return false, storeapi.ErrInProgress
			}
		}
		if lost == lostConnections || c.fateOf(err) != onlyLost || !sqlkit.Pause(ctx) {
			return false, err
		}
	}
}

// left returns an error if the work, which has returned failed (nil: nothing shows that it has),
// had ended the transaction by SQL text, so that what it wrote afterwards may stand. It asks the
// server, and only after work that is not to be committed.
func (c *serverClaim) left(ctx context.Context, j *joint, failed error) *endedError {
	q := c.claim.store.db.queries()
	var args []any
	if q.leftAt {
		args = []any{j.now}
	}
	var outside bool
	if err := j.tx.QueryRow(ctx, q.left, args, &outside); err != nil || !outside {
		return nil // after a failed statement PostgreSQL answers none, and has the transaction open
	}
	if failed == nil {
		failed = errors.New("its record is not there")
	}
	return &endedError{cause: failed, loose: true}
}
