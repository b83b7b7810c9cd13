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

var _ storeapi.StepStore[*sql.Tx] = (*Store)(nil)

// StepTx implements [storeapi.StepStore]; retrysafe.StepTx calls it.
//
// On PostgreSQL and MySQL, StepTx looks at the record before work, and writes it afterwards if it
// still belongs to the attempt. No other call waits for the work, and heartbeats continue. On
// SQLite the transaction has the file's write lock from before work is called until it ends, as
// with RunTx: no other process can take the record over in between, and no other call writes,
// including heartbeats. The rules for work are those of RunTx.
func (s *Store) StepTx(ctx context.Context, r storeapi.StepRequest, work func(context.Context, *sql.Tx) (storeapi.Answer, error)) error {
	if err := s.check(ctx, &r.Key); err != nil {
		return err
	}
	if s.db.dialect != SQLite {
		return s.StepOn(ctx, r, s.opening(s.db.lockWait), func(ctx context.Context, tx dbtx.Tx) (storeapi.Answer, error) { return work(ctx, standard(tx)) })
	}
	step := &stepTx{store: s, r: &r, id: idOf(r.Key), work: work}
	return interrupted(ctx, step.run(ctx))
}

// errOtherDatabase means that there is no record.
var errOtherDatabase = fmt.Errorf("%w: this database has no record of the attempt; give StepTx the engine's own store", storeapi.ErrLeaseLost)

// stepTx is one call of StepTx.
type stepTx struct {
	store *Store
	r     *storeapi.StepRequest
	id    recordID
	work  func(context.Context, *sql.Tx) (storeapi.Answer, error)
}

// extend returns the record with a new lease, and with progress if it is not nil.
func (s *stepTx) extend(row protocol.Row, now protocol.Micros, progress *storeapi.Answer) (protocol.Row, error) {
	return protocol.Extend(row, now, &storeapi.ExtendRequest{
		Key: s.r.Key, Owner: s.r.Owner, Fence: s.r.Fence, Lease: s.r.Lease, Progress: progress,
	})
}

func (s *stepTx) run(ctx context.Context) error {
	tx, err := s.store.db.begin(ctx)
	if err != nil {
		return unavailable(s.store.db.failed("begin the transaction of a step", err))
	}
	defer tx.end() // rolls back what was not committed, also if work panics
	l, err := s.store.db.load(ctx, tx, s.store.db.queries().loadToWrite, s.id)
	if err != nil {
		return unavailable(s.store.db.failed("look for the record of a step", err))
	}
	if l.row.State == 0 {
		return errOtherDatabase
	}
	if _, err := s.extend(l.row, l.now, nil); err != nil {
		return err
	}
	progress, err := s.call(ctx, tx)
	if err != nil {
		return err
	}
	row, err := s.extend(l.row, s.store.db.clock().UnixMicro(), &progress)
	if err != nil {
		return err
	}
	changed := false
	res, err := tx.ExecContext(ctx, s.store.db.queries().finish, finishArgs(s.id, &row)...)
	if err == nil {
		changed, err = byCount(res)
	}
	switch {
	case err != nil:
		return s.broken(ctx, err)
	case !changed:
		return s.touched()
	}
	if err := tx.commit(ctx); err != nil {
		return s.settle(ctx, tx, &progress, err)
	}
	return nil
}

// call runs work once, within a savepoint. A missing savepoint afterwards means that work has ended
// the transaction itself.
func (s *stepTx) call(ctx context.Context, tx *writeTx) (progress storeapi.Answer, err error) {
	if _, err := tx.ExecContext(ctx, beginWork); err != nil {
		return progress, unavailable(s.store.db.failed("begin a step", err))
	}
	inside, end := marked(ctx, s.store.db.pool)
	defer end()
	progress, err = s.work(inside, tx.Tx)
	if err != nil {
		if _, gone := tx.ExecContext(ctx, endWork); gone != nil && ctx.Err() == nil && endedByWork(gone) && !sqliteUndoes(err) {
			return progress, &endedError{cause: err, loose: !errors.Is(gone, sql.ErrTxDone)}
		}
		return progress, err
	}
	if _, err := tx.ExecContext(ctx, endWork); err != nil {
		return progress, s.broken(ctx, err)
	}
	return progress, nil
}

// broken returns the error for a statement that failed after the work.
func (s *stepTx) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: the step ended before its transaction was committed, and all was rolled back: %w", context.Cause(ctx))
	case endedByWork(err):
		return &endedError{cause: err, loose: !errors.Is(err, sql.ErrTxDone)}
	}
	return unavailable(s.store.db.failed("keep what the step has done", err))
}

// commitFailed returns the error for a COMMIT that was refused.
func (s *stepTx) commitFailed(failed error) error {
	return (&claim{store: s.store}).commitFailed(failed)
}

// settle finds out the outcome of a COMMIT that failed, as for RunTx. The progress that this
// attempt stored last shows it.
func (s *stepTx) settle(ctx context.Context, tx *writeTx, progress *storeapi.Answer, failed error) error {
	tx.undo()
	wait, cancel := s.store.db.patience(context.WithoutCancel(ctx), time.Time{})
	defer cancel()
	var l loaded
	err := s.store.db.writeInTurn(wait, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		var err error
		l, err = s.store.db.load(ctx, w, s.store.db.queries().loadToWrite, s.id)
		return false, err
	})
	return s.settled(ctx, &l, err, progress, failed)
}

// settled returns the outcome of a COMMIT that failed, given the record that was read after it.
func (s *stepTx) settled(ctx context.Context, l *loaded, err error, progress *storeapi.Answer, failed error) error {
	row := &l.row
	switch {
	case err != nil:
		return fmt.Errorf("%w: COMMIT has failed, and nobody can say what became of it: %w",
			storeapi.ErrUnconfirmed, errors.Join(s.store.db.failed("commit", failed), s.store.db.failed("look for the record", err)))
	case row.Owner != s.r.Owner || row.Fence != s.r.Fence || row.State != storeapi.StateInProgress:
		return fmt.Errorf("%w: COMMIT has failed, and the record is another's since; what it has kept is found there: %w",
			storeapi.ErrLeaseLost, s.store.db.failed("commit", failed))
	case row.Answer.Codec == progress.Codec && row.Answer.Size >= progress.Size:
		return nil
	case ctx.Err() != nil:
		return s.broken(ctx, failed)
	}
	return s.commitFailed(failed)
}

// touched returns the error for a record that does not belong to this attempt any more.
func (s *stepTx) touched() error {
	return fmt.Errorf("%w: the work of the step has removed or changed the record of its own call, or has rolled back by itself, and all was rolled back; "+
		"keep the table %s, COMMIT and ROLLBACK out of the work", storeapi.ErrLeaseLost, s.store.db.table)
}
