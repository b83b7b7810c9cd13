package outbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// ErrDuplicate means that the outbox already has a message with this ID. Nothing was added, and the
// transaction can continue.
//
// It does not protect against duplicate calls, since published messages are removed. The key of the
// call that adds does that.
var ErrDuplicate = errors.New("outbox: a message with this ID is in the outbox already; give each message an ID of its own, or none")

// errLost means that another relay has the partition by now.
var errLost = errors.New("outbox: another relay has the partition")

// Error numbers of MySQL and MariaDB.
const (
	numberDuplicate = 1062
	numberNoTable   = 1146
	numberLockWait  = 1205
	numberDeadlock  = 1213
)

// inTheWay reports whether another transaction caused the error, so that a retry may succeed.
func inTheWay(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case 5, 6, 15: // busy, locked, protocol
		return true
	}
	switch dberr.SQLState(err) { // serialization failure, deadlock, lock timeout
	case "40001", "40P01", "55P03":
		return true
	}
	n := dberr.MySQLNumber(err)
	return n == numberDeadlock || n == numberLockWait
}

// explain adds the failed step to err, and what to do if that is known.
func (o *Outbox) explain(step string, err error) error {
	if err == nil {
		return nil
	}
	missing := dberr.MySQLNumber(err) == numberNoTable || dberr.SQLState(err) == "42P01" || dberr.SQLiteCode(err)&0xff == 1 && strings.Contains(err.Error(), "no such table")
	if missing && strings.Contains(err.Error(), o.table) {
		return fmt.Errorf("outbox: %s: the tables %s… are not there; call Migrate, or run SchemaSQL: %w", step, o.table, err)
	}
	return fmt.Errorf("outbox: %s: %w", step, err)
}
