package retrysafe

import (
	"errors"
	"fmt"
)

// rejected returns the error of a duplicate of finished work under Reject.
func (c *core) rejected(rec *Record) error {
	if rec.State == StateFailed {
		return c.failedBefore(rec)
	}
	return c.wrap(rec.Key, rec.Attempt, ErrDuplicate, 0)
}

// failedBefore returns the error for work that was refused for good, with the refusal if it was
// stored. Unlike a duplicate of completed work this is not a success.
func (c *core) failedBefore(rec *Record) error {
	err := ErrFailedBefore
	if f, bad := FailureOf(rec.Answer); bad == nil {
		err = fmt.Errorf("%w: %w", ErrFailedBefore, f)
	}
	return c.wrap(rec.Key, rec.Attempt, err, 0)
}

// duplicateOutcome returns the trace's name for how a duplicate was answered.
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

// replay returns the answer of a finished record.
func replay[T any](c *core, rec *Record, d Duplicate) (res Result[T], err error) {
	res = Result[T]{Replayed: true, Stored: true, Attempt: rec.Attempt, Fence: rec.Fence}
	switch {
	case d == Succeed && rec.State == StateCompleted:
	case rec.State == StateFailed && (!rec.Answer.Kept || rec.Answer.Sealed()):
		err = c.failedBefore(rec)
	case rec.Answer.Sealed():
		err = c.wrap(rec.Key, rec.Attempt, ErrAnswerSealed, 0)
	case !rec.Answer.Kept:
		err = c.wrap(rec.Key, rec.Attempt, ErrAnswerNotKept, 0)
	case rec.State == StateFailed:
		var f *Failure
		if f, err = FailureOf(rec.Answer); err == nil {
			err = &settledError{err: f}
		}
	default:
		res.Value, err = decode[T](c.codec, &rec.Answer)
	}
	return res, err
}

// Result is what a call of [Do] returns.
type Result[T any] struct {
	// Value is the answer as its [Codec] decodes it, for the first caller too.
	Value T
	// Replayed says that the work did not run in this call. Value is then the first answer (under
	// [Succeed] the zero value).
	Replayed bool
	// Stored is false if the work succeeded but the store has not confirmed its answer yet, or if
	// the lease was lost.
	Stored  bool
	Attempt int
	Fence   Fence
}
