package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// endedError means that the work has ended the transaction itself.
type endedError struct {
	cause error
	// loose means that statements could follow, as after ROLLBACK as text. Each has committed on
	// its own.
	loose bool
}

func (e *endedError) Error() string {
	text := "sqlstore: the work has ended the transaction by itself (Commit, Rollback, or a statement that made the database roll back)"
	if e.loose {
		text += ", and what it has written after that may stand"
	}
	return text + "; return an error to roll back and nil to commit: " + e.cause.Error()
}

func (e *endedError) Unwrap() []error { return []error{storeapi.ErrTxEnded, e.cause} }

// touchedError means that the last statement has not found the record of the attempt.
type touchedError string

func (e touchedError) Error() string { return string(e) }

func (e touchedError) Unwrap() error { return storeapi.ErrTxEnded }

// touched returns the error for a record that does not belong to this attempt any more.
func (c *claim) touched(n int64) error {
	return touchedError(fmt.Sprintf("sqlstore: the work has removed or changed the record of its own key, or has rolled back by itself (%d rows are its own): "+
		"its transaction was rolled back; keep the table %s, COMMIT and ROLLBACK out of the work", n, c.store.db.table))
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

// leftBy returns an error if work that has returned err on SQLite had ended the transaction before:
// its savepoint is gone. It returns nil if the database has ended it, and err says so.
func leftBy(ctx context.Context, tx sqlkit.Execer, err error) *endedError {
	if sqliteUndoes(err) {
		return nil
	}
	_, gone := tx.ExecContext(ctx, endWork)
	if gone == nil || ctx.Err() != nil || errors.Is(gone, sql.ErrTxDone) || !endedByWork(gone) {
		return nil
	}
	return &endedError{cause: err, loose: true}
}

// endedByWork reports whether err means that the transaction, or the savepoint around the work, has
// ended.
func endedByWork(err error) bool {
	if err == nil {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), endedByWork)
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return endedByWork(inner)
		}
	}
	switch dberr.SQLState(err) {
	case stateNoTransaction, stateNoSavepoint:
		return true
	}
	return err == sql.ErrTxDone || dberr.MySQLNumber(err) == numberNoSavepoint || strings.Contains(err.Error(), "no such savepoint") //nolint:errorlint // as above
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

// ofTheWork reports whether an error of COMMIT is about what the work has written: deferred
// constraints and triggers.
func ofTheWork(err error) bool {
	if state := dberr.SQLState(err); len(state) == 5 {
		switch state[:2] {
		case "22", "23", "27", "44", "P0":
			return true
		}
	}
	return dberr.SQLiteCode(err)&0xff == codeConstraint
}
