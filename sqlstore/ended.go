package sqlstore

import (
	"context"
	"database/sql"
	"errors"
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

// savepoint is a name that the work does not use.
const (
	savepoint = "retrysafe_work"
	beginWork = "SAVEPOINT " + savepoint
	endWork   = "RELEASE " + savepoint
)

// errRefusal undoes the effect of work that refused for good. No caller gets it.
var errRefusal = errors.New("sqlstore: a final refusal")
