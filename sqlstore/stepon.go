package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

// StepOn is StepTx for adapters of other drivers, as RunOn is RunTx.
func (s *Store) StepOn(ctx context.Context, r storeapi.StepRequest, begin func(context.Context) (Transaction, error),
	work func(context.Context, dbtx.Tx) (storeapi.Answer, error),
) error {
	if err := s.check(ctx, &r.Key); err != nil {
		return err
	}
	fateOf, err := s.fates("StepOn", "StepTx")
	if err != nil {
		return err
	}
	step := &serverStep{stepTx: &stepTx{store: s, r: &r, id: idOf(r.Key)}, begin: begin, do: work, fateOf: fateOf}
	return step.run(ctx)
}

// serverStep is one call of StepOn. It locks the row only at its end: heartbeats continue, and no
// other call waits for the work.
type serverStep struct {
	*stepTx
	begin  func(context.Context) (Transaction, error)
	do     func(context.Context, dbtx.Tx) (storeapi.Answer, error)
	fateOf func(error) fate
}

func (s *serverStep) run(ctx context.Context) error {
	l, err := s.store.look(ctx, s.id)
	if err != nil {
		return unavailable(err)
	}
	if err := s.owned(&l); err != nil {
		return err
	}
	tx, err := s.begin(ctx)
	for lost := 0; err != nil && lost < lostConnections && s.fateOf(err) == onlyLost && sqlkit.Pause(ctx); lost++ {
		tx, err = s.begin(ctx) // the pool's connections may be dead
	}
	if err != nil {
		return unavailable(s.store.db.failed("begin the transaction of a step", err))
	}
	open := true
	undo := func() error {
		if !open {
			return nil
		}
		open = false
		return rollback(ctx, tx)
	}
	defer undo() //nolint:errcheck // also where work panics
	if t, ok := tx.(interface{ claimed(context.Context) error }); ok {
		if err := t.claimed(ctx); err != nil {
			return unavailable(s.store.db.failed("begin the transaction of a step", err))
		}
	}
	progress, err := s.callOn(ctx, tx)
	if err != nil {
		if gone := undo(); errors.Is(gone, sql.ErrTxDone) && ctx.Err() == nil {
			return &endedError{cause: err}
		}
		return err
	}
	if err := s.keep(ctx, tx, &progress); err != nil {
		return err
	}
	open = false
	if err := tx.Commit(ctx); err != nil {
		_ = rollback(ctx, tx) // gives the connection back
		switch {
		case ofTheWork(err):
			return s.commitFailed(err)
		case s.fateOf(err) != onlyLost:
			return s.broken(ctx, err) // the server has refused it
		}
		return s.committed(ctx, &progress, err)
	}
	return nil
}

// owned returns nil if the record belongs to the attempt.
func (s *serverStep) owned(l *loaded) error {
	if l.row.State == 0 {
		return errOtherDatabase
	}
	_, err := s.extend(l.row, l.now, nil)
	return err
}

func (s *serverStep) callOn(ctx context.Context, tx Transaction) (storeapi.Answer, error) {
	inside, end := marked(ctx, s.store.db.pool)
	defer end()
	progress, err := s.do(inside, tx)
	if hasEnded(tx) {
		return progress, &endedError{cause: cmp.Or(err, sql.ErrTxDone), loose: true}
	}
	if q := s.store.db.queries(); err != nil && !q.leftAt {
		var outside bool
		if tx.QueryRow(ctx, q.left, nil, &outside) == nil && outside {
			return progress, &endedError{cause: err, loose: true}
		}
	}
	return progress, err
}

// keep writes the progress with the last statement, if the record still belongs to the attempt. It
// waits for the row and its table no longer than LockWait.
func (s *serverStep) keep(call context.Context, tx dbtx.Tx, progress *storeapi.Answer) (err error) {
	ctx, ended := s.store.limitWait(call, s.store.db.lockWait, &err)
	defer ended()
	load := func(within string) (loaded, error) {
		return s.store.db.loadBy(func(dest ...any) error {
			return tx.QueryRow(ctx, within+s.store.db.queries().loadToJoin, []any{s.id[:]}, dest...)
		})
	}
	l, err := load(s.store.within(s.store.db.lockWait))
	if dberr.MySQLNumber(err) == numberSyntax { // nothing was undone
		s.store.db.words.noSetStatement.Store(true)
		l, err = load("")
	}
	if err != nil {
		return s.broken(call, err)
	}
	row, err := s.extend(l.row, l.now, progress)
	if err != nil {
		return err
	}
	// a heartbeat may have extended the lease while this call waited for the row
	row.LeaseEnd = max(row.LeaseEnd, l.row.LeaseEnd)
	n, err := tx.Exec(ctx, s.store.db.queries().finish, finishArgs(s.id, &row)...)
	switch {
	case err != nil:
		return s.broken(call, err)
	case n != 1:
		return s.touched()
	}
	return nil
}

// committed finds out the outcome of a COMMIT without a reply. Locking the row waits for the
// transaction.
func (s *serverStep) committed(ctx context.Context, progress *storeapi.Answer, failed error) error {
	var l loaded
	err := s.store.backend.write(context.WithoutCancel(ctx), s.id, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		var err error
		if l, err = s.store.db.load(ctx, w, s.store.db.queries().loadToWrite, s.id); err != nil {
			return false, err
		}
		// as in serverClaim.claimAgain
		_, err = w.ExecContext(ctx, s.store.db.queries().confirm, s.id[:])
		return true, err
	})
	return s.settled(ctx, &l, err, progress, failed)
}
