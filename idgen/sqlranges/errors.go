package sqlranges

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/dberr"
)

// again calls try until no other transaction blocks it, or ctx ends.
func again(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || !inTheWay(err) {
			return err
		}
		if backoff.Pause(ctx, time.Millisecond+rand.N(9*time.Millisecond)) != nil {
			return err
		}
	}
}

// inTheWay reports whether another transaction blocked the statement. Then nothing was changed, and
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
	switch dberr.MySQLNumber(err) { // lock wait, deadlock
	case 1205, 1213:
		return true
	}
	return false
}

// duplicate reports whether err is MySQL's error for a tag that exists.
func duplicate(err error) bool { return dberr.MySQLNumber(err) == 1062 }

func (r *Ranges) noTable(err error) bool {
	missing := dberr.MySQLNumber(err) == 1146 || dberr.SQLState(err) == "42P01" || dberr.SQLiteCode(err)&0xff == 1 && strings.Contains(err.Error(), "no such table")
	return missing && strings.Contains(err.Error(), r.name)
}

// explain says which step err is from, and what to do if that is known.
func (r *Ranges) explain(step string, err error) error {
	switch {
	case err == nil, errors.Is(err, idgen.ErrNoTag), errors.Is(err, idgen.ErrSpent):
		return err
	case r.noTable(err):
		return fmt.Errorf("sqlranges: %s: the table %s is not there; call Migrate, or run SchemaSQL: %w", step, r.name, err)
	case dberr.MySQLNumber(err) == 1054, dberr.SQLState(err) == "42703", dberr.SQLiteCode(err)&0xff == 1 && strings.Contains(err.Error(), "no such column"):
		return fmt.Errorf("sqlranges: %s: the table %s has other columns; it needs biz_tag, max_id, step and update_time: %w", step, r.name, err)
	}
	return fmt.Errorf("sqlranges: %s: %w", step, err)
}
