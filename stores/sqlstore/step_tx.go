package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var _ storeapi.StepStore[*sql.Tx] = (*Store)(nil)

// StepTx implements [storeapi.StepStore]; retrysafe.StepTx calls it.
//
// On PostgreSQL and MySQL, StepTx looks at the record before work, and writes it afterwards if it
// still belongs to the attempt. No other call waits for the work, and heartbeats continue. On
// SQLite the transaction has the file's write lock from before work is called until it ends, as
// with RunTx: no other process can take the record over in between, and no other call writes,
// including heartbeats. The rules for work are those of RunTx.
func (s *Store) StepTx(ctx context.Context, r storeapi.StepRequest, work func(context.Context, *sql.Tx) (storeapi.Answer, error)) error {
	id, err := s.checkKey(ctx, &r.Key)
	if err != nil {
		return err
	}
	if s.db.Dialect != SQLite {
		return s.StepOn(ctx, r, s.transactionOpener(s.db.LockWait), func(ctx context.Context, tx dbtx.Tx) (storeapi.Answer, error) { return work(ctx, sqlTxOf(tx)) })
	}
	step := &stepCall{store: s, req: &r, id: id, work: work}
	return table.WithContextError(ctx, step.runStep(ctx))
}

// errOtherDatabase means that there is no record.
var errOtherDatabase = fmt.Errorf("%w: this database has no record of the attempt; give StepTx the engine's own store", storeapi.ErrLeaseLost)

// stepCall is one call of StepTx.
type stepCall struct {
	store *Store
	req   *storeapi.StepRequest
	id    table.RecordID
	work  func(context.Context, *sql.Tx) (storeapi.Answer, error)
}

// extendLease returns the record with a new lease, and with progress if it is not nil.
func (s *stepCall) extendLease(row protocol.Row, now protocol.Micros, progress *storeapi.Answer) (protocol.Row, error) {
	return protocol.Extend(row, now, &storeapi.ExtendRequest{
		Key: s.req.Key, Owner: s.req.Owner, Fence: s.req.Fence, Lease: s.req.Lease, Progress: progress,
	})
}

func (s *stepCall) runStep(ctx context.Context) error {
	tx, err := s.store.db.BeginWrite(ctx)
	if err != nil {
		return unavailableError(s.store.db.CallerError("begin the transaction of a step", err))
	}
	defer tx.Close() // rolls back what was not committed, also if work panics
	l, err := s.store.db.LoadRecord(ctx, tx, s.store.db.Statements.Load().LockRow, s.id)
	if err != nil {
		return unavailableError(s.store.db.CallerError("look for the record of a step", err))
	}
	if l.Row.State == 0 {
		return errOtherDatabase
	}
	if _, err := s.extendLease(l.Row, l.Now, nil); err != nil {
		return err
	}
	progress, err := s.callWork(ctx, tx)
	if err != nil {
		return err
	}
	row, err := s.extendLease(l.Row, s.store.db.Clock().UnixMicro(), &progress)
	if err != nil {
		return err
	}
	changed := false
	res, err := tx.ExecContext(ctx, s.store.db.Statements.Load().FinishAttempt, table.FinishArgs(s.id, &row)...)
	if err == nil {
		changed, err = table.InsertedByCount(res)
	}
	switch {
	case err != nil:
		return s.brokenError(ctx, err)
	case !changed:
		return s.recordTouched()
	}
	if err := tx.Commit(ctx); err != nil {
		return s.settleCommit(ctx, tx, &progress, err)
	}
	return nil
}

// callWork runs work once, within a savepoint. A missing savepoint afterwards means that work has
// ended the transaction itself.
func (s *stepCall) callWork(ctx context.Context, tx *table.WriteTx) (progress storeapi.Answer, err error) {
	if _, err := tx.ExecContext(ctx, beginWork); err != nil {
		return progress, unavailableError(s.store.db.CallerError("begin a step", err))
	}
	inside, end := markContext(ctx, s.store.db.Pool)
	defer end()
	progress, err = s.work(inside, tx.Tx)
	if err != nil {
		if _, gone := tx.ExecContext(ctx, endWork); gone != nil && ctx.Err() == nil && table.EndedByWork(gone) && !table.UndoneBySQLite(err) {
			return progress, &txEndedError{cause: err, statementsFollowed: !errors.Is(gone, sql.ErrTxDone)}
		}
		return progress, err
	}
	if _, err := tx.ExecContext(ctx, endWork); err != nil {
		return progress, s.brokenError(ctx, err)
	}
	return progress, nil
}

// brokenError returns the error for a statement that failed after the work.
func (s *stepCall) brokenError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: the step ended before its transaction was committed, and all was rolled back: %w", context.Cause(ctx))
	case table.EndedByWork(err):
		return &txEndedError{cause: err, statementsFollowed: !errors.Is(err, sql.ErrTxDone)}
	}
	return unavailableError(s.store.db.CallerError("keep what the step has done", err))
}

// commitFailed returns the error for a COMMIT that was refused.
func (s *stepCall) commitFailed(failed error) error {
	return (&txClaim{store: s.store}).commitFailed(failed)
}

// settleCommit finds out the outcome of a COMMIT that failed, as for RunTx. The progress that this
// attempt stored last shows it.
func (s *stepCall) settleCommit(ctx context.Context, tx *table.WriteTx, progress *storeapi.Answer, failed error) error {
	tx.RollBack()
	wait, cancel := s.store.db.NewPatience(context.WithoutCancel(ctx), time.Time{})
	defer cancel()
	var l table.Loaded
	err := s.store.db.WriteInTurn(wait, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		var err error
		l, err = s.store.db.LoadRecord(ctx, w, s.store.db.Statements.Load().LockRow, s.id)
		return false, err
	})
	return s.outcomeOf(ctx, &l, err, progress, failed)
}

// outcomeOf returns the outcome of a COMMIT that failed, given the record that was read after it.
func (s *stepCall) outcomeOf(ctx context.Context, l *table.Loaded, err error, progress *storeapi.Answer, failed error) error {
	row := &l.Row
	switch {
	case err != nil:
		return fmt.Errorf("%w: COMMIT has failed, and its outcome is unknown: %w",
			storeapi.ErrUnconfirmed, errors.Join(s.store.db.CallerError("commit", failed), s.store.db.CallerError("look for the record", err)))
	case row.Owner != s.req.Owner || row.Fence != s.req.Fence || row.State != storeapi.StateInProgress:
		return fmt.Errorf("%w: COMMIT has failed, and the record is another's since; what it has kept is found there: %w",
			storeapi.ErrLeaseLost, s.store.db.CallerError("commit", failed))
	case row.Answer.Codec == progress.Codec && row.Answer.Size >= progress.Size:
		return nil
	case ctx.Err() != nil:
		return s.brokenError(ctx, failed)
	}
	return s.commitFailed(failed)
}

// recordTouched returns the error for a record that does not belong to this attempt any more.
func (s *stepCall) recordTouched() error {
	return fmt.Errorf("%w: the work of the step has removed or changed the record of its own call, or has rolled back by itself, and all was rolled back; "+
		"keep the table %s, COMMIT and ROLLBACK out of the work", storeapi.ErrLeaseLost, s.store.db.Table)
}

// StepOn is StepTx for adapters of other drivers, as RunOn is RunTx.
func (s *Store) StepOn(ctx context.Context, r storeapi.StepRequest, begin func(context.Context) (Transaction, error),
	work func(context.Context, dbtx.Tx) (storeapi.Answer, error),
) error {
	id, err := s.checkKey(ctx, &r.Key)
	if err != nil {
		return err
	}
	classify, err := s.errorClassifier("StepOn", "StepTx")
	if err != nil {
		return err
	}
	step := &serverStep{stepCall: &stepCall{store: s, req: &r, id: id}, begin: begin, serverWork: work, classifyError: classify}
	return step.runStep(ctx)
}

// serverStep is one call of StepOn. It locks the row only at its end: heartbeats continue, and no
// other call waits for the work.
type serverStep struct {
	*stepCall
	begin         func(context.Context) (Transaction, error)
	serverWork    func(context.Context, dbtx.Tx) (storeapi.Answer, error)
	classifyError func(error) table.ErrorClass
}

func (s *serverStep) runStep(ctx context.Context) error {
	l, err := s.store.queue.LookUp(ctx, s.id)
	if err != nil {
		return unavailableError(err)
	}
	if err := s.checkOwner(&l); err != nil {
		return err
	}
	tx, err := s.begin(ctx)
	for lost := 0; err != nil && lost < table.LostConnections && s.classifyError(err) == table.OnlyLost && sqlkit.Pause(ctx); lost++ {
		tx, err = s.begin(ctx) // the pool's connections may be dead
	}
	if err != nil {
		return unavailableError(s.store.db.CallerError("begin the transaction of a step", err))
	}
	open := true
	undo := func() error {
		if !open {
			return nil
		}
		open = false
		return rollBackTx(ctx, tx)
	}
	defer undo() //nolint:errcheck // also where work panics
	if t, ok := tx.(*table.MySQLTx); ok {
		if err := t.RestoreWaits(ctx); err != nil {
			return unavailableError(s.store.db.CallerError("begin the transaction of a step", err))
		}
	}
	progress, err := s.callServerWork(ctx, tx)
	if err != nil {
		if gone := undo(); errors.Is(gone, sql.ErrTxDone) && ctx.Err() == nil {
			return &txEndedError{cause: err}
		}
		return err
	}
	if err := s.keepProgress(ctx, tx, &progress); err != nil {
		return err
	}
	open = false
	if err := tx.Commit(ctx); err != nil {
		_ = rollBackTx(ctx, tx) // gives the connection back
		switch {
		case table.CausedByWork(err):
			return s.commitFailed(err)
		case s.classifyError(err) != table.OnlyLost:
			return s.brokenError(ctx, err) // the server has refused it
		}
		return s.findOutcome(ctx, &progress, err)
	}
	return nil
}

// checkOwner returns nil if the record belongs to the attempt.
func (s *serverStep) checkOwner(l *table.Loaded) error {
	if l.Row.State == 0 {
		return errOtherDatabase
	}
	_, err := s.extendLease(l.Row, l.Now, nil)
	return err
}

func (s *serverStep) callServerWork(ctx context.Context, tx Transaction) (storeapi.Answer, error) {
	inside, end := markContext(ctx, s.store.db.Pool)
	defer end()
	progress, err := s.serverWork(inside, tx)
	if hasEnded(tx) {
		return progress, &txEndedError{cause: cmp.Or(err, sql.ErrTxDone), statementsFollowed: true}
	}
	if q := s.store.db.Statements.Load(); err != nil && !q.HasLeftSince {
		var outside bool
		if tx.QueryRow(ctx, q.HasLeft, nil, &outside) == nil && outside {
			return progress, &txEndedError{cause: err, statementsFollowed: true}
		}
	}
	return progress, err
}

// keepProgress writes the progress with the last statement, if the record still belongs to the
// attempt. It waits for the row and its table no longer than LockWait.
func (s *serverStep) keepProgress(call context.Context, tx dbtx.Tx, progress *storeapi.Answer) (err error) {
	ctx, ended := s.store.limitWait(call, s.store.db.LockWait, &err)
	defer ended()
	load := func(within string) (table.Loaded, error) {
		db := s.store.db
		return db.ReadRecord(db.Clock().UnixMicro(), func(to ...any) error {
			return tx.QueryRow(ctx, within+db.Statements.Load().LockToJoin, []any{s.id[:]}, to...)
		})
	}
	l, err := load(s.store.db.LimitRowWait(s.store.db.LockWait))
	if s.store.db.CannotLimit(err) { // nothing was undone
		l, err = load("")
	}
	if err != nil {
		return s.brokenError(call, err)
	}
	row, err := s.extendLease(l.Row, l.Now, progress)
	if err != nil {
		return err
	}
	// a heartbeat may have extended the lease while this call waited for the row
	row.LeaseEnd = max(row.LeaseEnd, l.Row.LeaseEnd)
	n, err := tx.Exec(ctx, s.store.db.Statements.Load().FinishAttempt, table.FinishArgs(s.id, &row)...)
	switch {
	case err != nil:
		return s.brokenError(call, err)
	case n != 1:
		return s.recordTouched()
	}
	return nil
}

// findOutcome finds out the outcome of a COMMIT without a reply. Locking the row waits for the
// transaction.
func (s *serverStep) findOutcome(ctx context.Context, progress *storeapi.Answer, failed error) error {
	var l table.Loaded
	err := s.store.db.Backend.WriteTables(context.WithoutCancel(ctx), s.id, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		var err error
		if l, err = s.store.db.LoadRecord(ctx, w, s.store.db.Statements.Load().LockRow, s.id); err != nil {
			return false, err
		}
		// as in serverClaim.claimAgain
		_, err = w.ExecContext(ctx, s.store.db.Statements.Load().ConfirmRow, s.id[:])
		return true, err
	})
	return s.outcomeOf(ctx, &l, err, progress, failed)
}
