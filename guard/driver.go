package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// sqliteCode is SQLite's extended result code, or zero: some drivers have a method, others a field.
func sqliteCode(err error) int {
	if code := dberr.SQLiteCode(err); code != 0 {
		return code
	}
	if f, ok := dberr.Field(err, reflect.Int, "ExtendedCode"); ok {
		return int(f.Int())
	}
	return 0
}

// Numbers and codes that say that another transaction was in the way.
const (
	mysqlLockWait       = 1205
	mysqlDeadlock       = 1213
	mysqlSnapshot       = 1020 // MariaDB: the row was changed since the transaction began to see
	mysqlNoWait         = 3572
	stateSerialization  = "40001"
	stateDeadlock       = "40P01"
	stateLocked         = "55P03"
	stateAborted        = "25P02"
	sqliteBusy          = 5
	sqliteLocked        = 6
	sqliteBusySnapshot  = 517
	sqliteGenericFailed = 1
)

// explain makes the error of a statement what callers see. The driver's error stays in it, so that
// DoTx knows what may be tried again.
func explain(where string, err error) error {
	const again = "begin a new transaction and make all of it again; retrysafe.DoTx does with RetryWork"
	code := sqliteCode(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("guard: %s: the call has ended; roll back: %w", where, err)
	case code == sqliteBusySnapshot:
		return fail(ErrLocked, err, "%s: this transaction has only read until now, and another one has written since; begin it with BEGIN IMMEDIATE (the "+
			"parameter _txlock=immediate of most drivers), or let the guard be its first statement", where)
	case code&0xff == sqliteBusy, code&0xff == sqliteLocked:
		return fail(ErrLocked, err, "%s: another connection writes to the file; set busy_timeout, begin with BEGIN IMMEDIATE (the parameter _txlock=immediate "+
			"of most drivers), or try again", where)
	}
	switch state := dberr.SQLState(err); state {
	case stateSerialization, stateDeadlock:
		return fmt.Errorf("guard: %s: the database has undone this transaction in favour of another one; %s: %w", where, again, err)
	case stateLocked:
		return fail(ErrLocked, err, "%s: the wait for the row has taken too long; %s", where, again)
	case stateAborted:
		return fmt.Errorf("guard: %s: an earlier statement of the transaction has failed, and its error was not returned; roll back: %w", where, err)
	}
	switch dberr.MySQLNumber(err) {
	case mysqlDeadlock, mysqlSnapshot:
		return fmt.Errorf("guard: %s: the database has undone this transaction in favour of another one; %s: %w", where, again, err)
	case mysqlLockWait, mysqlNoWait:
		return fail(ErrLocked, err, "%s: the wait for the row has taken too long; %s", where, again)
	}
	return fmt.Errorf("guard: %s: %w", where, err)
}
