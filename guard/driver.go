package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// sqliteCode returns SQLite's extended result code, or zero. Some drivers have a method for it,
// others a field.
func sqliteCode(err error) int {
	if code := dberr.SQLiteCode(err); code != 0 {
		return code
	}
	if f, ok := dberr.Field(err, reflect.Int, "ExtendedCode"); ok {
		return int(f.Int())
	}
	return 0
}

// Error numbers and codes that mean that another transaction was in the way.
const (
	mysqlLockWait       = 1205
	mysqlDeadlock       = 1213
	mysqlSnapshot       = 1020 // MariaDB: the row changed after the transaction's snapshot
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

// explainError converts the error of a statement to the one that callers see. It wraps the driver's
// error, so that DoTx knows what it can retry.
func explainError(where string, err error) error {
	const again = "begin a new transaction and make all of it again; retrysafe.DoTx does with RetryWork"
	code := sqliteCode(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("guard: %s: the call has ended; roll back: %w", where, err)
	case code == sqliteBusySnapshot:
		return newFailure(ErrLocked, err, "%s: this transaction has only read until now, and another one has written since; begin it with BEGIN IMMEDIATE (the "+
			"parameter _txlock=immediate of most drivers), or let the guard be its first statement", where)
	case code&0xff == sqliteBusy, code&0xff == sqliteLocked:
		return newFailure(ErrLocked, err, "%s: another connection writes to the file; set busy_timeout, begin with BEGIN IMMEDIATE (the parameter _txlock=immediate "+
			"of most drivers), or try again", where)
	}
	switch state := dberr.SQLState(err); state {
	case stateSerialization, stateDeadlock:
		return fmt.Errorf("guard: %s: the database has undone this transaction in favour of another one; %s: %w", where, again, err)
	case stateLocked:
		return newFailure(ErrLocked, err, "%s: the wait for the row has taken too long; %s", where, again)
	case stateAborted:
		return fmt.Errorf("guard: %s: an earlier statement of the transaction has failed, and its error was not returned; roll back: %w", where, err)
	}
	switch dberr.MySQLNumber(err) {
	case mysqlDeadlock, mysqlSnapshot:
		return fmt.Errorf("guard: %s: the database has undone this transaction in favour of another one; %s: %w", where, again, err)
	case mysqlLockWait, mysqlNoWait:
		return newFailure(ErrLocked, err, "%s: the wait for the row has taken too long; %s", where, again)
	}
	return fmt.Errorf("guard: %s: %w", where, err)
}
