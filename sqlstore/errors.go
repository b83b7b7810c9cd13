package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/storeapi"
)

// stateError is a complete error text about the tables, not about one call.
type stateError string

func (e stateError) Error() string { return string(e) }

// lockError means that nothing was changed, because another transaction was in the way until the
// wait ended.
type lockError struct {
	after time.Duration
	text  string // with a placeholder for after
	ended error  // the caller's context ended before that
}

func (e *lockError) Unwrap() error { return e.ended }

func (e *lockError) Error() string {
	if e.ended != nil {
		return fmt.Sprintf("sqlstore: the call ended while it waited for the database, and nothing was changed: %v", e.ended)
	}
	return "sqlstore: " + fmt.Sprintf(e.text, e.after)
}

func (d *database) notMigrated() error {
	return stateError(fmt.Sprintf("sqlstore: the table %s is not there; call Store.Migrate once before the store is used", d.table))
}

func (d *database) wrongVersion(found int) error {
	if found > d.queries().newest {
		return stateError(fmt.Sprintf("sqlstore: the table %s was written by a newer retrysafe (schema %d, this build knows %d); update this program, nothing was changed",
			d.table, found, d.queries().newest))
	}
	return stateError(fmt.Sprintf("sqlstore: the table %s has schema %d, which no retrysafe has written; look whether the name is used by something else, nothing was changed",
		d.table, found))
}

// failed returns the error of a step for callers. It never contains a key, since drivers do not
// include arguments.
func (d *database) failed(step string, err error) error {
	var state stateError
	var lock *lockError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &state):
		return state
	case errors.As(err, &lock):
		return lock
	}
	return d.backend.explain(step, err)
}

const serverWaits = "other transactions have held the row of this key, or its table (ALTER TABLE, LOCK TABLES), or all connections to the database, " +
	"or the server does not answer, for %v, and nothing was changed; look for a transaction that was left open (pg_stat_activity, " +
	"information_schema.innodb_trx), or give the pool more connections"

const sqliteWaits = "other transactions have held the database file, or all connections to it, for %v, and nothing was changed; SQLite has " +
	"one writer at a time: keep transactions short, look for one that was left open, or raise Options.LockWait"

// lostError means that the call failed without a COMMIT, and that its connection is lost.
type lostError struct{ cause error }

func (e *lostError) Unwrap() error { return e.cause }

func (e *lostError) Error() string { return e.cause.Error() }

// commitError means that a COMMIT was sent and its outcome is unknown.
type commitError struct{ cause error }

func (e *commitError) Unwrap() error { return e.cause }

func (e *commitError) Error() string {
	return "COMMIT was sent and not answered, so that nobody knows whether it was carried out; the same call by the same owner may be made again: " + e.cause.Error()
}

// isOwn reports whether err is an error of this package, not of the driver.
func isOwn(err error) bool {
	var state stateError
	var lock *lockError
	var commit *commitError
	return errors.As(err, &state) || errors.As(err, &lock) || errors.As(err, &commit) || errors.Is(err, storeapi.ErrTooLate)
}

// unknownError means that the caller's context ended while its change was being committed.
type unknownError struct{ ended error }

func (e *unknownError) Unwrap() error { return e.ended }
func (e *unknownError) Error() string {
	return "sqlstore: the call ended while its change was under way, so that nobody knows whether it was made; the same call by the same owner " +
		"may be made again: " + e.ended.Error()
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

// lacksRight reports whether the server has refused a statement because the user lacks a right.
func lacksRight(err error) bool {
	return dberr.SQLState(err) == stateNoRight || dberr.MySQLNumber(err) == numberNoRight
}

// waitedInVain returns the error of a call that has waited this long and changed nothing, or whose
// context has ended before that.
func (d *database) waitedInVain(after time.Duration, ended error) *lockError {
	return &lockError{after: after, text: d.waits, ended: ended}
}
