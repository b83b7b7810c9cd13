package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Codes of PostgreSQL (SQLSTATE).
const (
	stateNotSupported  = "0A000"
	stateDivision      = "22012"
	stateReadOnly      = "25006"
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateNoRight       = "42501"
	stateNoTable       = "42P01"
	stateNoSchema      = "3F000"
	stateNoDatabase    = "3D000"
	stateTooMany       = "53300"
	stateDiskFull      = "53100"
	stateLockTimeout   = "55P03"
	stateCanceled      = "57014"
)

// sqlState is the server's code in an error of a driver; empty: the server has not said anything.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// isOwn tells an error of this package from one of the driver.
func isOwn(err error) bool {
	var state stateError
	var lock *lockError
	var commit *commitError
	return errors.As(err, &state) || errors.As(err, &lock) || errors.As(err, &commit) || errors.Is(err, retrysafe.ErrTooLate)
}

// mayPass tells whether the next connection may be a better one: the server said nothing, or that it ends this one.
func mayPass(state string) bool {
	return state == "" || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P0") || state == "25P03"
}

const postgresWaits = "other transactions have held the row of this key, or all connections to the database, for %v, and nothing was changed; " +
	"look for a transaction that was left open (pg_stat_activity), or give the pool more connections"

// postgresAdvice says in plain words what a code means and what to do.
var postgresAdvice = map[string]string{
	stateReadOnly: "the server can only be read, and nothing was changed: it is a replica, or it is being recovered; connect to the primary " +
		"(target_session_attrs=read-write finds it)",
	stateNoRight: "this user lacks a right, and nothing was changed; Migrate needs CREATE on the schema where the tables are not there yet, and all calls need " +
		"SELECT, INSERT, UPDATE and DELETE on them",
	stateNoDatabase: "there is no such database; create it, or look at the address",
	stateNoSchema:   "there is no schema to make tables in; create one, or set search_path",
	stateTooMany:    "the server has no connection left; lower the sum of SetMaxOpenConns of all processes, or raise max_connections",
	stateDiskFull:   "the server's disk is full, and nothing was written; make room",
	"28000":         "the server refuses this user; look at the user's name and at pg_hba.conf",
	"28P01":         "the server refuses the password",
	"57P01":         "the server ends its connections; it is stopped or started anew",
	"57P02":         "the server has crashed, and recovers by itself",
	"57P03":         "the server is starting or stopping; try again",
}

// explain adds the advice for err to it.
func (p postgres) explain(step string, err error) error {
	state := sqlState(err)
	if errors.Is(err, retrysafe.ErrTooLate) {
		return err
	}
	if state == stateNoTable && strings.Contains(err.Error(), p.table) {
		return p.notMigrated()
	}
	if state == stateNotSupported && strings.Contains(err.Error(), "recovery") {
		state = stateReadOnly // of a transaction that is to write, on a replica
	}
	text, ok := postgresAdvice[state]
	var gone *lostError
	switch {
	case ok:
		return fmt.Errorf("sqlstore: %s: %s: %w", step, text, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sqlstore: %s: the server has not answered in time: %w", step, err)
	}
	if state == "" && errors.As(err, &gone) {
		return fmt.Errorf("sqlstore: %s: the server cannot be reached, and nothing was changed: %w", step, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", step, err)
}
