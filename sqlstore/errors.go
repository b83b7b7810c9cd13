package sqlstore

import (
	"errors"
	"fmt"
	"time"
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
	if found > d.queries.newest {
		return stateError(fmt.Sprintf("sqlstore: the table %s was written by a newer retrysafe (schema %d, this build knows %d); update this program, nothing was changed",
			d.table, found, d.queries.newest))
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
	return d.explain(step, err)
}
