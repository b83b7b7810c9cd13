package table

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// StateError is a complete error text about the tables, not about one call.
type StateError string

func (e StateError) Error() string { return string(e) }

// LockError means that nothing was changed, because another transaction was in the way until the
// wait ended.
type LockError struct {
	after time.Duration
	text  string // with a placeholder for after
	Ended error  // the caller's context ended before that
}

func (e *LockError) Unwrap() error { return e.Ended }

func (e *LockError) Error() string {
	if e.Ended != nil {
		return fmt.Sprintf("sqlstore: the call ended while it waited for the database, and nothing was changed: %v", e.Ended)
	}
	return "sqlstore: " + fmt.Sprintf(e.text, e.after)
}

// NotMigratedError says that the tables are not there.
func (d *Database) NotMigratedError() error {
	return StateError(fmt.Sprintf("sqlstore: the table %s is not there; call Store.Migrate once before the store is used", d.Table))
}

// VersionError says why this build may not use the tables: the version that was read is another
// one, or the read has failed.
func (d *Database) VersionError(version int, failed error) error {
	switch {
	case errors.Is(failed, sql.ErrNoRows):
		return d.NotMigratedError()
	case failed != nil:
		return failed
	case version == transacts:
		return errTransacts
	case version > d.Statements.Load().SchemaVersion:
		return StateError(fmt.Sprintf("sqlstore: the table %s was written by a newer retrysafe (schema %d, this build knows %d); update this program, nothing was changed",
			d.Table, version, d.Statements.Load().SchemaVersion))
	}
	return StateError(fmt.Sprintf("sqlstore: the table %s has schema %d, which no retrysafe has written; look whether the name is used by something else, nothing was changed",
		d.Table, version))
}

// errTransacts means that the session has autocommit off, and that nothing was read.
var errTransacts = errors.New("sqlstore: the session has autocommit off")

// transacts replaces the version of the tables; no version has this number.
const transacts = -1

// CallerError returns the error of a step for callers. It never contains a key, since drivers do
// not include arguments.
func (d *Database) CallerError(step string, err error) error {
	var state StateError
	var lock *LockError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &state):
		return state
	case errors.As(err, &lock):
		return lock
	}
	return d.Backend.addAdvice(step, err)
}

const serverWaits = "other transactions have held the row of this key, or its table (ALTER TABLE, LOCK TABLES), or all connections to the database, " +
	"or the server does not answer, for %v, and nothing was changed; look for a transaction that was left open (pg_stat_activity, " +
	"information_schema.innodb_trx), or give the pool more connections"

const sqliteWaits = "other transactions have held the database file, or all connections to it, for %v, and nothing was changed; SQLite has " +
	"one writer at a time: keep transactions short, look for one that was left open, or raise Options.LockWait"

// lostError means that the call failed and that its connection is lost. Nothing was committed,
// unless it wraps a *CommitError: then that is unknown.
type lostError struct{ cause error }

func (e *lostError) Unwrap() error { return e.cause }

func (e *lostError) Error() string { return e.cause.Error() }

// CommitError means that a COMMIT was sent and its outcome is unknown.
type CommitError struct{ cause error }

func (e *CommitError) Unwrap() error { return e.cause }

func (e *CommitError) Error() string {
	return "COMMIT was sent and not answered, so that it is unknown whether it was carried out; the same call by the same owner may be made again: " + e.cause.Error()
}

// isOwnError reports whether err is an error of this package, not of the driver.
func isOwnError(err error) bool {
	var state StateError
	var lock *LockError
	var commit *CommitError
	return errors.As(err, &state) || errors.As(err, &lock) || errors.As(err, &commit) || errors.Is(err, storeapi.ErrTooLate)
}

// UnknownError means that the caller's context ended while its change was being committed.
type UnknownError struct{ Ended error }

func (e *UnknownError) Unwrap() error { return e.Ended }
func (e *UnknownError) Error() string {
	return "sqlstore: the call ended while its change was under way, so that it is unknown whether it was made; the same call by the same owner " +
		"may be made again: " + e.Ended.Error()
}

// EndedByWork reports whether err means that the transaction, or the savepoint around the work, has
// ended.
func EndedByWork(err error) bool {
	if err == nil {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), EndedByWork)
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return EndedByWork(inner)
		}
	}
	switch dberr.SQLState(err) {
	case stateNoTransaction, stateNoSavepoint:
		return true
	}
	return err == sql.ErrTxDone || dberr.MySQLNumber(err) == numberNoSavepoint || strings.Contains(err.Error(), "no such savepoint") //nolint:errorlint // as above
}

// CausedByWork reports whether an error of COMMIT is about what the work has written: deferred
// constraints and triggers.
func CausedByWork(err error) bool {
	if state := dberr.SQLState(err); len(state) == 5 {
		switch state[:2] {
		case "22", "23", "27", "44", "P0":
			return true
		}
	}
	return dberr.SQLiteCode(err)&0xff == codeConstraint
}

// LacksRight reports whether the server has refused a statement because the user lacks a right.
func LacksRight(err error) bool {
	return dberr.SQLState(err) == stateNoRight || dberr.MySQLNumber(err) == numberNoRight
}

// WaitedInVain returns the error of a call that has waited this long and changed nothing, or whose
// context has ended before that.
func (d *Database) WaitedInVain(after time.Duration, ended error) *LockError {
	return &LockError{after: after, text: d.waitedText, Ended: ended}
}
