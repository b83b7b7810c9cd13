package retrysafe

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/internal/lease"
	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/internal/waitroom"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Errors of this package. Calls return them wrapped in an [*Error]; test with errors.Is.
var (
	// ErrInProgress is returned while another attempt of the key is running. Retry with the same
	// key later, or set [Policy].Wait to wait for the answer.
	ErrInProgress = storeapi.ErrInProgress

	// ErrInvalidKey is returned if a part of a key is empty or too long, or if the text of a key
	// cannot be read. Correct the key; a retry would get the same error.
	ErrInvalidKey = storeapi.ErrInvalidKey

	// ErrAttemptFailed is returned to a caller that waited for an attempt which then ended without
	// an answer. Retry with the same key.
	ErrAttemptFailed = waitroom.ErrAttemptFailed

	// ErrFingerprintMismatch is returned if the key was used before with another payload. Use a new
	// key for a new request, and the old payload for a retry.
	ErrFingerprintMismatch = storeapi.ErrFingerprintMismatch

	// ErrPrincipalChanged is returned if the key was used before with another credential; see
	// [WithBinding]. Retry with the credential that was used first.
	ErrPrincipalChanged = storeapi.ErrPrincipalChanged

	// ErrInDoubt is returned if the work may have taken effect and its outcome is unknown. Find out
	// the outcome, starting with [Engine.Lookup], and resolve the key with [Engine.Resolve]. Do not
	// retry with a new key.
	ErrInDoubt = storeapi.ErrInDoubt

	// ErrLeaseLost is returned if another attempt has taken over the key, or if the lease of this
	// one could not be extended in time. It is also the cause of a context that ended for that
	// reason. Do not report success: a retry with the same key gets the answer of the attempt that
	// took over.
	ErrLeaseLost = storeapi.ErrLeaseLost

	// ErrMaxRun is the cause of an attempt's context that ended because the attempt ran longer than
	// [Policy].MaxRun. The work must return.
	ErrMaxRun = lease.ErrMaxRun

	// ErrDuplicate is returned under [Reject] if the work was completed before, and by
	// [Engine.Resolve] for a completed key. Nothing was run again. Look up what the first call
	// made.
	ErrDuplicate = errors.New("done before")

	// ErrAnswerNotKept is returned if the work, or a [Step], was completed before and its answer
	// was not stored, for example because it was larger than [Policy].MaxAnswer. Nothing was run
	// again. Look up what the first call made.
	ErrAnswerNotKept = errors.New("done before, but its answer was not kept")

	// ErrAnswerSealed is returned if the work was completed before and its answer was encrypted
	// (package sealstore) with a key that was forgotten or that this process does not have. Nothing
	// was run again. It wraps ErrAnswerNotKept.
	ErrAnswerSealed = fmt.Errorf("%w: it is sealed, and its key was forgotten or is not here", ErrAnswerNotKept)

	// ErrFailedBefore is returned if the work was refused for good before: under [Reject], or if
	// the stored refusal has no text. Nothing was done, and a retry would get the same error. A new
	// request needs a new key.
	ErrFailedBefore = errors.New("refused for good before")

	// ErrNotIssued is returned under [MustBeIssued] if the server has not issued the key or the
	// time for its first use has passed, and by [Engine.Issue] if the key has a record already. Ask
	// for a new key, but find out first whether an earlier call with this one may have taken
	// effect.
	ErrNotIssued = storeapi.ErrNotIssued

	// ErrTooManyKeys is returned for a new key if the tenant is over its [Limits]. Nothing was run.
	// Retry with the same key after the RetryAfter of the [*Error].
	ErrTooManyKeys = quota.ErrTooManyKeys

	// ErrTooManyRequests is returned by [Engine.Allow] if a request comes faster than the [Rate]
	// allows. Nothing was run. Retry after the RetryAfter of the [*Error].
	ErrTooManyRequests = errors.New("requests come faster than the rate allows")

	// ErrNotFound is returned by [Engine.Lookup] and [Engine.Resolve] if the key has no record.
	// Check the layer: a record is found only on the layer of the call that made it.
	ErrNotFound = errors.New("no such record")

	// ErrFenceChanged is returned by [Engine.Resolve] if the record has changed since it was read.
	// Look the record up again, and decide again.
	ErrFenceChanged = storeapi.ErrFenceChanged

	// ErrSecretChanged is returned by [Engine.CheckSecret] if [Options].Secret is not the one that
	// the namespace was used with. Do not serve: a retry of an earlier call could run again. Use
	// the secret of the other processes.
	ErrSecretChanged = errors.New("the secret is not the one that the store was used with")

	// ErrStoreWentBack is returned by [Engine.MarkStore] if the store is in an older state than
	// this process or another one has seen, for example because a backup was restored. Do not begin
	// new work before an operator has accepted it: a retry of a call whose record is gone would run
	// again.
	ErrStoreWentBack = errors.New("the store went back to an older state")

	// ErrTooLate is returned by a [storeapi.Store] that got a call after its time limit and did not
	// apply it. The engine tries again; its callers get this error together with [ErrUnavailable].
	ErrTooLate = storeapi.ErrTooLate

	// ErrInTransaction is returned if the engine is called on the database of an open [DoTx] or
	// [StepTx]. Give the call a store on another database, or move it out of the transaction.
	ErrInTransaction = storeapi.ErrInTransaction

	// ErrTxEnded is returned if the work of [DoTx] or [StepTx] has committed or rolled back its
	// transaction itself, or has changed the record of its own key. What it wrote after a ROLLBACK
	// as text may stand. Let the work return nil to commit and an error to roll back. Look the key
	// up to see what was stored.
	ErrTxEnded = storeapi.ErrTxEnded

	// ErrCommitRefused is returned if the database has refused the COMMIT of [DoTx] or [StepTx]
	// because of what the work has written, as with a deferred foreign key. All was rolled back. It
	// counts as an error of the work, and wraps that of the database.
	ErrCommitRefused = storeapi.ErrCommitRefused

	// ErrUnavailable is returned if the store cannot be reached or fails. Nothing took effect.
	// Retry with the same key.
	ErrUnavailable = storeapi.ErrUnavailable

	// ErrUnconfirmed is returned if the work is done and the store has not confirmed its answer
	// yet. Do not do the work again in another way. Repeat the call with the same key to learn the
	// outcome.
	ErrUnconfirmed = storeapi.ErrUnconfirmed

	// ErrNoAttempt is returned by [Step] and [StepTx] if the context belongs to no attempt. Call
	// them inside the work, with the context that the work got.
	ErrNoAttempt = errors.New("there is no attempt in this context")

	// ErrStepRepeated is returned by [Step] and [StepTx] if the attempt has run a step of this name
	// before. Give each step a name of its own: number the steps of a loop, and retry inside a
	// step.
	ErrStepRepeated = journal.ErrStepRepeated

	// ErrStepsChanged is returned if the work has other steps than an earlier attempt of the call.
	// Find out what that attempt has done ([ProgressOf]), and resolve the key with
	// [Engine.Resolve] or run the program that began the call.
	ErrStepsChanged = journal.ErrStepsChanged

	// ErrEnded is returned by the methods of an [Attempt] that was finished before, and by its
	// steps. It is also the cause of a finished attempt's context. Nothing was changed; a deferred
	// [Attempt.LeaveInDoubt] can ignore it.
	ErrEnded = errors.New("the attempt has ended")

	// ErrClosed is returned after [Engine.Shutdown] was called. Nothing was run. Retry with the
	// same key on another process.
	ErrClosed = lifetime.ErrClosed

	// ErrUnreadable is returned by [Engine.ReconcileAll] if the store has records that this build
	// cannot read. All other records were handled. Update this program, or look at those records
	// with the store's own tools.
	ErrUnreadable = errors.New("records that this build cannot read were left out")
)

// Error is the error type of the calls of this package. It never contains a key or an answer in
// clear text.
type Error struct {
	// Op is the operation of the key, or the step that failed.
	Op string
	// Key is the engine's keyed hash of the key, for logs. It may be empty.
	Key string
	// Attempt is the number of the attempt that the error is about, or zero if there is none.
	Attempt int
	// Err is one of the errors above, or wraps one together with its cause.
	Err error
	// RetryAfter is how long to wait before a retry. It is zero if a retry makes no sense or if no
	// time is known; [Retryable] reports which.
	RetryAfter time.Duration
}

// Error returns what is wrong and what the caller can do next.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("retrysafe")
	if e.Op != "" {
		b.WriteString(": " + e.Op)
	}
	if e.Key != "" {
		b.WriteString(" [key " + e.Key + "]")
	}
	if e.Attempt > 0 {
		fmt.Fprintf(&b, " (attempt %d)", e.Attempt)
	}
	if e.Err == nil {
		return b.String()
	}
	b.WriteString(": " + e.Err.Error())
	if advice := adviceFor(e.Err); advice != "" {
		b.WriteString("; " + advice)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// txError converts an error of the database to one of this package's errors. A database that
// returns an error has rolled back, so nothing happened, whether or not fn ran.
func txError(err error) error {
	for _, known := range []error{
		ErrInProgress, ErrInDoubt, ErrFingerprintMismatch, ErrPrincipalChanged, ErrNotIssued, ErrLeaseLost, ErrInvalidKey,
		ErrInTransaction, ErrTxEnded, ErrUnconfirmed, ErrUnavailable,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return storecall.Unavailable(err)
}
