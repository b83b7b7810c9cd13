// Package errortest has the errors that every package has to answer: each error of the engine, the
// ways in which the engine joins them, and errors that no table has.
package errortest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Case is an error with a name for a golden file.
type Case struct {
	Name string
	Err  error
}

// Later is the RetryAfter of an error that has one.
const Later = 7 * time.Second

// Sentinels returns the errors of package retrysafe by their names.
func Sentinels() []Case {
	return []Case{
		{"ErrInProgress", retrysafe.ErrInProgress},
		{"ErrInvalidKey", retrysafe.ErrInvalidKey},
		{"ErrAttemptFailed", retrysafe.ErrAttemptFailed},
		{"ErrFingerprintMismatch", retrysafe.ErrFingerprintMismatch},
		{"ErrPrincipalChanged", retrysafe.ErrPrincipalChanged},
		{"ErrInDoubt", retrysafe.ErrInDoubt},
		{"ErrLeaseLost", retrysafe.ErrLeaseLost},
		{"ErrMaxRun", retrysafe.ErrMaxRun},
		{"ErrDuplicate", retrysafe.ErrDuplicate},
		{"ErrAnswerNotKept", retrysafe.ErrAnswerNotKept},
		{"ErrAnswerSealed", retrysafe.ErrAnswerSealed},
		{"ErrFailedBefore", retrysafe.ErrFailedBefore},
		{"ErrNotIssued", retrysafe.ErrNotIssued},
		{"ErrTooManyKeys", retrysafe.ErrTooManyKeys},
		{"ErrTooManyRequests", retrysafe.ErrTooManyRequests},
		{"ErrNotFound", retrysafe.ErrNotFound},
		{"ErrFenceChanged", retrysafe.ErrFenceChanged},
		{"ErrSecretChanged", retrysafe.ErrSecretChanged},
		{"ErrStoreWentBack", retrysafe.ErrStoreWentBack},
		{"ErrTooLate", retrysafe.ErrTooLate},
		{"ErrInTransaction", retrysafe.ErrInTransaction},
		{"ErrTxEnded", retrysafe.ErrTxEnded},
		{"ErrCommitRefused", retrysafe.ErrCommitRefused},
		{"ErrUnavailable", retrysafe.ErrUnavailable},
		{"ErrUnconfirmed", retrysafe.ErrUnconfirmed},
		{"ErrNoAttempt", retrysafe.ErrNoAttempt},
		{"ErrStepRepeated", retrysafe.ErrStepRepeated},
		{"ErrStepsChanged", retrysafe.ErrStepsChanged},
		{"ErrEnded", retrysafe.ErrEnded},
		{"ErrClosed", retrysafe.ErrClosed},
		{"ErrUnreadable", retrysafe.ErrUnreadable},
	}
}

// Unknown returns errors that are in no list: they say nothing about what was done.
func Unknown() []Case {
	e := retrysafe.New(memstore.New(nil), nil)
	defer e.Shutdown(context.Background()) //nolint:errcheck // nothing runs
	_, again := retrysafe.Run(context.Background(), e, retrysafe.Key{Operation: "op", ID: "1"}, func(context.Context) error {
		return retrysafe.NothingDone(errors.New("refused"))
	})
	return []Case{
		{"an error of the work that a retry runs again", again},
		{"an unknown error", errors.New("of a later version")},
		{"an unknown error, wrapped", &retrysafe.Error{Op: "op", Err: errors.New("of a later version"), RetryAfter: Later}},
		{"an error of the work", retrysafe.NothingDone(errors.New("refused"))},
	}
}

// All returns every error: alone, with no time to retry after, with one, and joined.
func All() []Case {
	all := Sentinels()
	all = append(all,
		Case{"context.Canceled", context.Canceled},
		Case{"context.DeadlineExceeded", context.DeadlineExceeded},
		Case{"errors.ErrUnsupported", errors.ErrUnsupported},
	)
	for _, c := range all[:len(all):len(all)] {
		all = append(all,
			Case{c.Name + ", wrapped", &retrysafe.Error{Op: "op", Key: "0123", Attempt: 2, Err: c.Err}},
			Case{c.Name + ", later", &retrysafe.Error{Op: "op", Err: c.Err, RetryAfter: Later}},
		)
	}
	return append(append(all, joinedCases()...), Unknown()...)
}

// joinedCases returns errors as the engine joins them.
func joinedCases() (all []Case) {
	failure := &retrysafe.Failure{Code: "declined", Message: "no funds"}
	for _, j := range []struct {
		name string
		errs []error
	}{
		{"in doubt, its work with an error", []error{retrysafe.ErrInDoubt, errors.New("broken pipe")}},
		{"in doubt, its work refused", []error{retrysafe.ErrInDoubt, failure}},
		{"in doubt, its store away", []error{retrysafe.ErrInDoubt, retrysafe.ErrUnavailable}},
		{"in doubt, its process ended", []error{retrysafe.ErrInDoubt, retrysafe.ErrClosed}},
		{"in doubt, its time over", []error{retrysafe.ErrInDoubt, context.DeadlineExceeded}},
		{"in doubt, other steps", []error{retrysafe.ErrInDoubt, retrysafe.ErrStepsChanged}},
		{"the store away, a time limit", []error{retrysafe.ErrUnavailable, context.DeadlineExceeded}},
		{"the store away, too late", []error{retrysafe.ErrUnavailable, retrysafe.ErrTooLate}},
		{"the store away, not supported", []error{retrysafe.ErrUnavailable, errors.ErrUnsupported}},
		{"refused before, with its text", []error{retrysafe.ErrFailedBefore, failure}},
		{"the lease lost, the run too long", []error{retrysafe.ErrLeaseLost, retrysafe.ErrMaxRun}},
		{"the store away, the process ended", []error{retrysafe.ErrUnavailable, retrysafe.ErrClosed}},
		{"not confirmed, the store away", []error{retrysafe.ErrUnconfirmed, retrysafe.ErrUnavailable}},
		{"a transaction that ended, the store away", []error{retrysafe.ErrTxEnded, retrysafe.ErrUnavailable}},
		{"records left out, the store away", []error{retrysafe.ErrUnavailable, retrysafe.ErrUnreadable}},
	} {
		err := j.errs[0]
		for _, next := range j.errs[1:] {
			err = fmt.Errorf("%w: %w", err, next)
		}
		all = append(all, Case{j.name, err}, Case{j.name + ", later", &retrysafe.Error{Op: "op", Err: err, RetryAfter: Later}})
	}
	return append(all, Case{"a refusal of the work", failure})
}
