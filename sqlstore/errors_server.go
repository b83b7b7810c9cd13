package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

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
	return errors.As(err, &state) || errors.As(err, &lock) || errors.As(err, &commit) || errors.Is(err, retrysafe.ErrTooLate)
}

// explain adds advice to err.
func (s server) explain(step string, err error) error {
	if errors.Is(err, retrysafe.ErrTooLate) {
		return err
	}
	text, noTable := s.manner.advice(err)
	var gone *lostError
	var commit *commitError
	switch {
	case noTable:
		return s.db.notMigrated()
	case text != "":
		return fmt.Errorf("sqlstore: %s: %s: %w", step, text, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sqlstore: %s: the server has not answered in time: %w", step, err)
	case errors.As(err, &gone) && !errors.As(err, &commit) && s.manner.fate(err) == onlyLost:
		return fmt.Errorf("sqlstore: %s: the server cannot be reached, and nothing was changed: %w", step, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", step, err)
}
