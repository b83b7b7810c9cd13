package retrysafe

import (
	"errors"
	"fmt"
)

// rejected is what a repeat of finished work is told under Reject.
func (rt *runtime) rejected(rec *Record) error {
	if rec.State == StateFailed {
		return rt.failedBefore(rec)
	}
	return rt.wrap(rec.Key, rec.Attempt, ErrDuplicate, 0)
}

// failedBefore is the error of work that was refused for good, with the refusal where it was kept:
// it is no success, as a duplicate is.
func (rt *runtime) failedBefore(rec *Record) error {
	err := ErrFailedBefore
	if f, bad := FailureOf(rec.Answer); bad == nil {
		err = fmt.Errorf("%w: %w", ErrFailedBefore, f)
	}
	return rt.wrap(rec.Key, rec.Attempt, err, 0)
}

// told names what a repeat was told.
func duplicateOutcome(err error, d Duplicate) string {
	switch {
	case err == nil && d == Succeed:
		return "succeeded"
	case err == nil:
		return "replayed"
	}
	var kept *Failure
	if errors.As(err, &kept) {
		return "replayed"
	}
	return outcome(err)
}

// replay gives the answer of a finished record.
func replay[T any](rt *runtime, rec *Record, d Duplicate) (res Result[T], err error) {
	res = Result[T]{Replayed: true, Stored: true, Attempt: rec.Attempt, Fence: rec.Fence}
	switch {
	case d == Succeed && rec.State == StateCompleted:
	case rec.State == StateFailed && !rec.Answer.Kept:
		err = rt.failedBefore(rec)
	case !rec.Answer.Kept:
		err = rt.wrap(rec.Key, rec.Attempt, ErrAnswerNotKept, 0)
	case rec.State == StateFailed:
		var f *Failure
		if f, err = FailureOf(rec.Answer); err == nil {
			err = &settledError{err: f}
		}
	default:
		res.Value, err = decode[T](rt.codec, &rec.Answer)
	}
	return res, err
}

// Result is what a call of Do is told.
type Result[T any] struct {
	Value T
	// Replayed: the work did not run in this call; Value is the first answer (under [Succeed] the
	// zero value).
	Replayed bool
	// Stored is false where the work succeeded but the store has not confirmed its answer yet, or
	// the lease was lost.
	Stored  bool
	Attempt int
	Fence   Fence
}
