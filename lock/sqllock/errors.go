package sqllock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/internal/dberr"
)

// Error numbers of MySQL and MariaDB.
const (
	numberNoTable  = 1146
	numberLockWait = 1205
	numberDeadlock = 1213
)

// inTheWay reports whether another transaction blocked the statement. Then nothing was done, and
// the same statement may succeed later.
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

// patient calls f until no other transaction blocks it.
func patient(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !inTheWay(err) {
			return err
		}
		if ended := backoff.Pause(ctx, time.Millisecond+rand.N(9*time.Millisecond)); ended != nil {
			return fmt.Errorf("sqllock: other transactions were in the way until the end of the context; nothing was done: %w", ended)
		}
	}
}

// explain says which step err is from, and what to do if that is known. None of these statements
// fails in a way in which a database would quote a name.
func explain(step, table string, err error) error {
	if err == nil {
		return nil
	}
	if n, state := dberr.MySQLNumber(err), dberr.SQLState(err); n == numberNoTable || state == "42P01" || dberr.SQLiteCode(err)&0xff == 1 && strings.Contains(err.Error(), "no such table") {
		return fmt.Errorf("sqllock: %s: the table %s is not there; call Migrate, or run SchemaSQL: %w", step, table, err)
	}
	return fmt.Errorf("sqllock: %s: %w", step, err)
}
