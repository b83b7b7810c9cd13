package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// txRecord is the record of a key in an open transaction. The transaction's first statement claims
// it, and the last one completes it.
type txRecord struct {
	claim *txClaim
	tx    dbtx.Tx
	// inCallerTx: the caller has begun the transaction, at its own isolation level.
	inCallerTx bool
	// rowWaitPrefix begins each statement that may wait for a lock, and limits the wait. MariaDB.
	rowWaitPrefix string
	row           protocol.Row
	// now is the store's time at the claim, and claimedAt is this machine's (monotonic) time then.
	now       protocol.Micros
	claimedAt time.Time
}

// claimKey claims the key. If won is false, rec and err are the answer. It waits for the table no
// longer than LockWait, and for the record of the key no longer than TxRequest.Wait besides.
func (j *txRecord) claimKey(ctx context.Context) (rec storeapi.Record, won bool, err error) {
	ctx, ended := j.claim.store.limitWait(ctx, min(j.claim.store.db.LockWait, table.LongestWait)+min(max(0, j.claim.req.Wait), table.LongestWait), &err)
	defer ended()
	return j.claimKeyWithin(ctx)
}

// claimKeyWithin is claimKey within the time limit of ctx.
func (j *txRecord) claimKeyWithin(ctx context.Context) (rec storeapi.Record, won bool, err error) {
	tx, own := j.tx.(*table.MySQLTx)
	if !own && !j.inCallerTx || own && tx.LimitsSession || j.claim.store.db.Statements.Load().LimitJoinWait == nil {
		return j.claimRecord(ctx)
	}
	if j.rowWaitPrefix = j.claim.store.db.LimitRowWait(j.claim.req.Wait); j.rowWaitPrefix != "" {
		rec, won, err := j.claimRecord(ctx)
		if !j.claim.store.db.CannotLimit(err) {
			return rec, won, err
		}
		j.rowWaitPrefix = ""
	}
	if own {
		return rec, false, errBeginAgain // the session's lock wait must be limited
	}
	if _, err := j.tx.Exec(ctx, j.claim.store.db.Statements.Load().LimitJoinWait(j.claim.req.Wait, j.claim.store.db.LockWait)); err != nil {
		return j.answerFailed(ctx, err)
	}
	rec, won, err = j.claimRecord(ctx)
	if failed := j.restoreLockWaits(ctx); failed != nil && (err == nil || isHeld(err)) {
		return rec, false, unavailableError(j.claim.store.db.CallerError("claim the key", failed))
	}
	return rec, won, err
}

// restoreLockWaits restores the session's lock waits for the statements that come after the call,
// also if the call has ended. The caller's transaction gives no access to its connection. So if
// they cannot be restored, the server ends the connection, and no later user of it waits as the
// claim.
func (j *txRecord) restoreLockWaits(ctx context.Context) error {
	within := func(statement string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), table.Slack)
		defer cancel()
		_, err := j.tx.Exec(ctx, statement)
		return err
	}
	err := within(j.claim.store.db.Statements.Load().RestoreWait)
	if err != nil {
		_ = within(table.EndMySQLConnection) // its answer is that the connection has ended
	}
	return err
}

// claimRecord is claimKey after the session's lock waits were set.
func (j *txRecord) claimRecord(ctx context.Context) (rec storeapi.Record, won bool, err error) {
	j.claimedAt = time.Now()
	tx, _ := j.tx.(*table.MySQLTx)
	once := tx != nil && j.rowWaitPrefix != "" && j.claim.isNew
	switch {
	case once:
		won, err = j.insertOnce(ctx, tx)
	case j.claim.store.db.Statements.Load().ClaimWithin != "":
		won, err = j.insertWithin(ctx)
	case j.claim.store.db.Statements.Load().ClaimAt != "":
		won, err = j.insertAt(ctx)
	case j.inCallerTx:
		won, err = j.insertFirst(ctx)
	default:
		won, err = j.lookAndInsert(ctx)
	}
	if err == nil && !won && (once || j.claim.store.db.Statements.Load().ClaimsFirst()) {
		// A finished key is answered without a lock, so that its duplicates do not wait for each
		// other.
		var l table.Loaded
		if l, err = j.loadRecord(ctx, j.rowWaitPrefix+j.claim.store.db.Statements.Load().LoadWithoutLock()); err == nil {
			if next, mine, err := j.claim.decideClaim(l, l.Now); !mine {
				return next.Record(j.claim.req.Key, l.Now), false, err
			}
			if once {
				return rec, false, j.beginAgain() // two with its shared lock would be a deadlock
			}
		}
	}
	if err == nil && !won {
		rec, won, err = j.takeOver(ctx)
		if !won && err == nil || rec.State != 0 {
			return rec, won, err
		}
	}
	if err != nil {
		return j.answerFailed(ctx, err)
	}
	return j.currentRecord(), true, nil
}

// takeOver claims a key that has a record: released, expired, or only issued.
func (j *txRecord) takeOver(ctx context.Context) (rec storeapi.Record, won bool, err error) {
	if err := j.refuseOtherFiles(ctx); err != nil {
		return rec, false, err
	}
	back, err := j.limitWait(ctx)
	if err != nil {
		return rec, false, err
	}
	for !won {
		j.claimedAt = time.Now()
		l, err := j.loadRecord(ctx, j.rowWaitPrefix+j.claim.store.db.Statements.Load().LockToJoin)
		if err != nil {
			return rec, false, err
		}
		next, mine, err := j.claim.decideClaim(l, l.Now)
		if !mine {
			return next.Record(j.claim.req.Key, l.Now), false, err
		}
		j.row, j.now = next, l.Now
		if l.Row.State != 0 {
			_, err = j.tx.Exec(ctx, j.claim.store.db.Statements.Load().UpdateRow, append(table.RowArgs(&next), j.claim.id[:])...)
			won = err == nil
		} else {
			won, err = j.insertRecord(ctx)
		}
		if err != nil {
			return rec, false, err
		}
	}
	return rec, true, back(ctx)
}

// limitWait limits the lock waits of the transaction to those of the claim, if the database needs a
// separate statement for that. back restores them.
func (j *txRecord) limitWait(ctx context.Context) (back func(context.Context) error, err error) {
	if j.claim.store.db.Statements.Load().LimitWait == "" {
		return func(context.Context) error { return nil }, nil
	}
	var was, ignored string
	err = j.tx.QueryRow(ctx, j.claim.store.db.Statements.Load().LimitWait, []any{table.LockTimeout(j.claim.req.Wait)}, &was, &ignored)
	return func(ctx context.Context) error {
		return j.tx.QueryRow(ctx, j.claim.store.db.Statements.Load().LimitWait, []any{was}, &ignored, &ignored)
	}, err
}

// refuseOtherFiles refuses a SQLite connection with attached files. It comes after a statement that
// writes: SQLite may refuse the lock to a transaction that has read before.
func (j *txRecord) refuseOtherFiles(ctx context.Context) error {
	if j.claim.store.db.Dialect != SQLite {
		return nil
	}
	return table.RefuseOtherFiles(func(dest ...any) error { return j.tx.QueryRow(ctx, table.CountOtherFiles, nil, dest...) })
}

// insertWithin claims a key without a record with one statement, on the server's clock.
func (j *txRecord) insertWithin(ctx context.Context) (won bool, err error) {
	j.row = j.newAttempt()
	var fence, updated sql.NullInt64
	var ignored any
	args := append([]any{table.LockTimeout(j.claim.req.Wait)}, j.claimArgs()...)
	err = j.tx.QueryRow(ctx, j.claim.store.db.Statements.Load().ClaimWithin, args, &fence, &updated, &ignored)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !fence.Valid {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j.setCreated(updated.Int64, fence.Int64)
	return true, nil
}

// insertAt claims a key without a record with one statement, on this machine's clock. The
// connection has no attached file then.
func (j *txRecord) insertAt(ctx context.Context) (won bool, err error) {
	j.row = j.newAttempt()
	now := j.claim.store.db.Clock().UnixMicro()
	n, err := j.tx.Exec(ctx, j.claim.store.db.Statements.Load().ClaimAt, append([]any{now}, j.claimArgs()...)...)
	if err != nil || n == 0 {
		return false, err
	}
	j.setCreated(now, now)
	return true, nil
}

// newAttempt returns the record of a first attempt, without fence and times.
func (j *txRecord) newAttempt() protocol.Row {
	return protocol.Row{
		State: storeapi.StateInProgress, OnDoubt: storeapi.Refuse, Attempt: 1, Owner: j.claim.req.Owner,
		Fingerprint: j.claim.req.Fingerprint, Binding: j.claim.req.Binding, Retention: protocol.ToMicros(j.claim.req.Retention),
	}
}

// setCreated sets what the statement of a claim has decided.
func (j *txRecord) setCreated(now protocol.Micros, fence int64) {
	j.now, j.row.Fence = now, storeapi.Fence(fence) //nolint:gosec // fences stay below 2^53
	j.row.Created, j.row.Updated, j.row.LeaseEnd = now, now, now+protocol.ToMicros(strayLease)
}

// claimArgs returns the arguments of ClaimWithin and ClaimAt after the first.
func (j *txRecord) claimArgs() []any {
	return []any{j.claim.id[:], table.PartsOf(&j.claim.req.Key), j.claim.req.Owner[:], table.AppendData(nil, &j.row), protocol.ToMicros(strayLease)}
}

// lookAndInsert claims a key without a record with two statements. The first locks the record, or
// fails if another transaction is just creating it.
func (j *txRecord) lookAndInsert(ctx context.Context) (won bool, err error) {
	query := j.rowWaitPrefix + j.claim.store.db.Statements.Load().LockToJoin
	if j.claim.req.Wait <= 0 {
		query = j.claim.store.db.Statements.Load().LockNow
	}
	j.claimedAt = time.Now()
	l, err := j.loadRecord(ctx, query)
	if err != nil || l.Row.State != 0 {
		return false, err
	}
	j.row, j.now = protocol.Row{}, l.Now
	if j.row, won, err = j.claim.decideClaim(l, l.Now); err != nil || !won {
		return false, err
	}
	return j.insertRecord(ctx)
}

// insertFirst claims a key without a record by inserting one. Locking an absent row would lock all
// the keys around it: at REPEATABLE READ none of those could be inserted until the caller's
// transaction has ended.
func (j *txRecord) insertFirst(ctx context.Context) (won bool, err error) {
	l, err := j.loadRecord(ctx, j.rowWaitPrefix+j.claim.store.db.Statements.Load().LoadUnlocked)
	if err != nil || l.Row.State != 0 {
		return false, err
	}
	j.row, j.now = protocol.Row{}, l.Now
	if j.row, won, err = j.claim.decideClaim(l, l.Now); err != nil || !won {
		return false, err
	}
	return j.insertRecord(ctx)
}

// insertOnce claims a key without a record with one statement, on the server's clock. If there is a
// record, the transaction has a shared lock on it: the caller only reads it, or begins again.
func (j *txRecord) insertOnce(ctx context.Context, tx *table.MySQLTx) (won bool, err error) {
	db := j.claim.store.db
	wait := db.RefuseRowWait() // no wait for the row, which only MariaDB has
	if j.claim.req.Wait > 0 {
		wait = j.rowWaitPrefix
	}
	j.row = j.newAttempt()
	now, err := tx.InsertClaim(ctx, wait+db.Statements.Load().ClaimOnce, j.claimArgs()...)
	switch {
	case err == nil && now != 0:
		j.setCreated(now, now)
		return true, nil
	case err == nil, db.Statements.Load().IsDuplicate(err):
		return false, nil
	case j.claim.req.Wait <= 0 && table.EndedRowWait(err):
		// perhaps it met a lock on a gap, which says nothing about the key
		return false, j.beginAgain()
	}
	return false, err
}

// beginAgain makes the next transaction of the claim look first, as for a key that was seen before.
func (j *txRecord) beginAgain() error {
	j.claim.isNew = false
	return errBeginAgain
}

// errBeginAgain means that the claim begins again, in a new transaction. No caller gets it.
var errBeginAgain = errors.New("sqlstore: the claim begins again")

// insertRecord inserts the record. It returns false if another transaction has inserted it
// meanwhile.
func (j *txRecord) insertRecord(ctx context.Context) (made bool, err error) {
	n, err := j.tx.Exec(ctx, j.rowWaitPrefix+j.claim.store.db.Statements.Load().InsertToJoin, table.InsertArgs(&j.claim.req.Key, j.claim.id, &j.row)...)
	if err != nil && j.claim.store.db.Statements.Load().IsDuplicate != nil && j.claim.store.db.Statements.Load().IsDuplicate(err) {
		return false, nil
	}
	return n > 0, err
}

func (j *txRecord) loadRecord(ctx context.Context, query string) (table.Loaded, error) {
	db := j.claim.store.db
	return db.ReadRecord(db.Clock().UnixMicro(), func(to ...any) error { return j.tx.QueryRow(ctx, query, []any{j.claim.id[:]}, to...) })
}

func (j *txRecord) currentRecord() storeapi.Record { return j.row.Record(j.claim.req.Key, j.now) }

// keyHeldError means that the claim could not wait any longer for the transaction that has the key
// (which may only be reading the answer) or, on SQLite, the file. The caller looks at the key after
// its own transaction was rolled back, since that may have the only connection.
type keyHeldError struct{ cause error }

func (e *keyHeldError) Error() string { return e.cause.Error() }

// isHeld reports whether a claim has ended with a keyHeldError.
func isHeld(err error) bool {
	_, held := err.(*keyHeldError) //nolint:errorlint // nothing is wrapped around it
	return held
}

// answerFailed returns the answer to a claim that has failed.
func (j *txRecord) answerFailed(ctx context.Context, err error) (rec storeapi.Record, won bool, _ error) {
	switch {
	case err == errBeginAgain: //nolint:errorlint // nothing is wrapped around it
		return rec, false, err
	case j.claim.store.db.Statements.Load().IsHeld != nil && j.claim.store.db.Statements.Load().IsHeld(err):
		return storeapi.Record{Key: j.claim.req.Key}, false, &keyHeldError{unavailableError(j.claim.store.db.CallerError("claim the key", err))}
	case ctx.Err() != nil:
		return rec, false, fmt.Errorf("sqlstore: the call ended while it waited for the key: %w", ctx.Err())
	}
	return rec, false, unavailableError(j.claim.store.db.CallerError("claim the key", err))
}

// committedAnswer returns the committed record of the key if it is finished.
func (c *txClaim) committedAnswer(ctx context.Context) (rec storeapi.Record, ok bool) {
	l, err := c.store.queue.LookUp(ctx, c.id)
	if err != nil {
		return rec, false
	}
	return c.answerIn(l)
}

// answerIn returns the record if it is finished.
func (c *txClaim) answerIn(l table.Loaded) (rec storeapi.Record, ok bool) {
	if !l.Row.State.Finished() {
		return rec, false
	}
	row, won, err := c.decideClaim(l, l.Now)
	return row.Record(c.req.Key, l.Now), !won && err == nil
}

// completeRecord writes the answer into the record, if the record still belongs to this attempt.
func (j *txRecord) completeRecord(ctx context.Context, state storeapi.State, answer storeapi.Answer) (storeapi.Record, error) {
	row, done, err := j.completedRow(state, answer)
	if err != nil {
		return done, err
	}
	n, err := j.tx.Exec(ctx, j.claim.store.db.Statements.Load().FinishAttempt, table.FinishArgs(j.claim.id, &row)...)
	if err != nil {
		return j.currentRecord(), j.claim.brokenError(ctx, err)
	}
	if n != 1 {
		return j.currentRecord(), j.claim.recordTouched(n)
	}
	return done, nil
}

// completedRow returns the row with the answer, and the record that callers get once it is stored.
func (j *txRecord) completedRow(state storeapi.State, answer storeapi.Answer) (protocol.Row, storeapi.Record, error) {
	now := j.now + time.Since(j.claimedAt).Microseconds()
	if j.claim.store.db.Dialect == SQLite {
		now = j.claim.store.db.Clock().UnixMicro()
	}
	row, _, err := protocol.Complete(j.row, now, &storeapi.CompleteRequest{
		Key: j.claim.req.Key, Owner: j.row.Owner, Fence: j.row.Fence, State: state, Answer: answer, Retention: j.claim.req.Retention,
	})
	if err != nil {
		return row, j.currentRecord(), err
	}
	done := row.Record(j.claim.req.Key, now)
	done.Fingerprint, done.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	return row, done, nil
}

// touchedError means that the last statement has not found the record of the attempt.
type touchedError string

func (e touchedError) Error() string { return string(e) }

func (e touchedError) Unwrap() error { return storeapi.ErrTxEnded }

// recordTouched returns the error for a record that does not belong to this attempt any more.
func (c *txClaim) recordTouched(n int64) error {
	return touchedError(fmt.Sprintf("sqlstore: the work has removed or changed the record of its own key, or has rolled back by itself (%d rows are its own): "+
		"its transaction was rolled back; keep the table %s, COMMIT and ROLLBACK out of the work", n, c.store.db.Table))
}

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
	return joinedStore[*sql.Tx]{s, tx, dbtx.SQL(tx, s.db.Dialect)}
}

// InTx is like In, for transactions of other libraries: GORM's, pgx's, and any other [dbtx.Tx].
func (s *Store) InTx(tx dbtx.Tx) storeapi.TxStore[dbtx.Tx] { return joinedStore[dbtx.Tx]{s, tx, tx} }

// Join is like In, for adapters: tx is the adapter's transaction, and same is that transaction as a
// [dbtx.Tx].
func Join[Tx any](s *Store, tx Tx, same dbtx.Tx) storeapi.TxStore[Tx] {
	return joinedStore[Tx]{s, tx, same}
}

// joinedStore is a store within an open transaction of the caller.
type joinedStore[Tx any] struct {
	store  *Store
	tx     Tx
	execTx dbtx.Tx
}

// Lookup calls the store's Lookup. If there are limits, the engine uses it to find out whether a
// key is known, and Charge to count the key.
func (t joinedStore[Tx]) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return t.store.Lookup(ctx, key)
}

// Charge calls the store's Charge.
func (t joinedStore[Tx]) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	return t.store.Charge(ctx, req)
}

// Usage calls the store's Usage.
func (t joinedStore[Tx]) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	return t.store.Usage(ctx, req)
}

// RunTx implements [storeapi.TxStore].
func (t joinedStore[Tx]) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	s := t.store
	if err := checkContext(ctx, s.db.Pool); err != nil {
		return storeapi.Record{}, err
	}
	if err := r.Key.Validate(); err != nil {
		// nothing else: the caller may have the only connection
		return storeapi.Record{}, err
	}
	if d := t.execTx.Dialect(); d != s.db.Dialect {
		return storeapi.Record{}, table.StateError("sqlstore: the transaction is one of " + d.String() + ", and the store is on " + s.db.Dialect.String() + ": join one of the same database")
	}
	text, _ := r.Key.AppendText(nil) // never fails
	c := &txClaim{store: s, req: &r, id: table.IDOf(text)}
	var rec storeapi.Record
	var answer storeapi.Answer
	err := dbtx.Savepoint(ctx, t.execTx, func(ctx context.Context) (err error) {
		j := &txRecord{claim: c, tx: t.execTx, inCallerTx: true}
		var won bool
		if rec, won, err = j.claimKey(ctx); !won {
			return err
		}
		var state storeapi.State
		inside, end := markContext(ctx, s.db.Pool)
		defer end()
		if state, answer, err = work(inside, t.tx); err != nil {
			return err
		}
		if state == storeapi.StateFailed {
			return errRefusal
		}
		rec, err = j.completeRecord(ctx, state, answer)
		return err
	})
	if held, ok := err.(*keyHeldError); ok { //nolint:errorlint // Savepoint returns what it was given, or joins it with another
		return t.answerHeld(ctx, c, held)
	}
	if err != errRefusal { //nolint:errorlint // joined with another, it is one
		return rec, s.joinedEnd(err)
	}
	// The effect was undone, and the claim with it.
	j := &txRecord{claim: c, tx: t.execTx, inCallerTx: true}
	rec, won, err := j.claimKey(ctx)
	if held, ok := err.(*keyHeldError); ok { //nolint:errorlint // claimKey wraps nothing around it
		return t.answerHeld(ctx, c, held)
	}
	if !won {
		return rec, err
	}
	return j.completeRecord(ctx, storeapi.StateFailed, answer)
}

// joinedEnd returns err, or that the work has ended the caller's transaction: then its savepoint is
// gone. The database itself ends a transaction too, which err says.
func (s *Store) joinedEnd(err error) error {
	classify, isServer := s.db.ServerErrorClassifier()
	if !table.EndedByWork(err) || table.UndoneBySQLite(err) || isServer && classify(err) == table.Blocked {
		return err
	}
	return &txEndedError{cause: err, statementsFollowed: !errors.Is(err, sql.ErrTxDone)}
}

// answerHeld returns the answer if another caller has the key, as this transaction sees it. It does
// not use another connection, since there might be none.
func (t joinedStore[Tx]) answerHeld(ctx context.Context, c *txClaim, held *keyHeldError) (storeapi.Record, error) {
	j := &txRecord{claim: c, tx: t.execTx}
	var l table.Loaded
	var err error
	func() {
		ctx, ended := c.store.limitWait(ctx, c.store.db.LockWait, &err)
		defer ended()
		l, err = j.loadRecord(ctx, c.store.db.LimitRowWait(0)+j.claim.store.db.Statements.Load().LoadWithoutLock())
	}()
	switch {
	case err == nil:
	case c.store.db.Dialect == SQLite:
		return storeapi.Record{Key: c.req.Key}, held.cause
	default: // the whole table is locked
		return storeapi.Record{Key: c.req.Key}, unavailableError(c.store.db.WaitedInVain(c.store.db.LockWait, nil))
	}
	if rec, ok := c.answerIn(l); ok {
		return rec, nil
	}
	if c.store.db.Dialect == SQLite && c.store.runningTxs.runningTx(c.id) == nil {
		// the file is busy, with whatever key
		return storeapi.Record{Key: c.req.Key}, held.cause
	}
	return storeapi.Record{Key: c.req.Key}, storeapi.ErrInProgress
}
