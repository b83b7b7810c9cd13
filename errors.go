package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors of this package. Calls return them wrapped in an [*Error]; test with errors.Is.
var (
	ErrInProgress          = errors.New("the first attempt is still running")
	ErrAttemptFailed       = errors.New("the attempt that was waited for ended without an answer")
	ErrFingerprintMismatch = errors.New("the key was used with another payload")
	ErrPrincipalChanged    = errors.New("the key belongs to another credential of this caller")
	ErrInDoubt             = errors.New("an earlier attempt may have taken effect")
	ErrLeaseLost           = errors.New("lease lost")
	ErrBound               = errors.New("the attempt ran longer than MaxRun")
	ErrDuplicate           = errors.New("done before")
	ErrAnswerNotKept       = errors.New("done before, but its answer was not kept")
	ErrFailedBefore        = errors.New("refused for good before")
	ErrNotIssued           = errors.New("key unknown, expired or another caller's")
	ErrTooManyKeys         = errors.New("the tenant has as many keys as its limits allow")
	ErrTooManyRequests     = errors.New("requests come faster than the rate allows")
	ErrNotFound            = errors.New("no such record")
	ErrFenceChanged        = errors.New("the record has changed since it was read")
	ErrTooLate             = errors.New("the call reached the store after its time limit and was not applied")
	ErrInTransaction       = errors.New("the engine was called on the database of the open DoTx")
	ErrTxEnded             = errors.New("the work has ended its transaction by itself")
	ErrUnavailable         = errors.New("store unavailable")
	ErrUnconfirmed         = errors.New("the work is done, but the store has not confirmed its answer yet")
	ErrNoAttempt           = errors.New("there is no attempt in this context")
	ErrStepRepeated        = errors.New("this attempt has run a step of this name before")
	ErrStepsChanged        = errors.New("the steps are not those of an earlier attempt")
	ErrEnded               = errors.New("the attempt has ended")
	ErrClosed              = errors.New("the engine is shut down")
	ErrUnreadable          = errors.New("records that this build cannot read were left out")
)

// advice says what a caller can do next; the first entry that fits is told. An error without one
// speaks for itself.
var advice = []struct {
	err  error
	text string
}{
	{ErrStepsChanged, "find out what the earlier attempt has done (Record.Progress), and settle the key with Engine.Resolve, or run the program that began it"},
	{ErrInDoubt, "find out what became of it (Engine.Lookup, on the layer of the call) and settle it with Engine.Resolve; do not retry with a new key"},
	{ErrLeaseLost, "do not report success; a retry with the same key gets the answer of the attempt that took over"},
	{ErrUnconfirmed, "do not do it again in another way; repeat the call with the same key to learn what became of it"},
	{ErrInProgress, "retry with the same key later, or let Policy.Wait wait for it"},
	{ErrAttemptFailed, "retry with the same key"},
	{ErrFingerprintMismatch, "use a new key for a new request, and the old payload for a retry"},
	{ErrPrincipalChanged, "retry with the credential that was used first"},
	{ErrDuplicate, "look up what it made; nothing was run again"},
	{ErrAnswerNotKept, "look up what it made; nothing was run again"},
	{ErrFailedBefore, "nothing was done, and a retry would be told the same; a new request needs a new key"},
	{ErrNotIssued, "ask for a new key, unless an earlier call with this one may have gone through: find that out first"},
	{ErrTooManyKeys, "nothing was run; retry with the same key after RetryAfter"},
	{ErrTooManyRequests, "nothing was run; retry after RetryAfter"},
	{ErrFenceChanged, "look the record up again and decide anew"},
	{ErrInTransaction, "give the call a store on another database, or move it out of the transaction"},
	{ErrNoAttempt, "call it inside of the work, with the context that the work was given"},
	{ErrStepRepeated, "give each step a name of its own (number those of a loop), and try again inside of a step"},
	{ErrTxEnded, "let the work return an error to roll back and nil to commit; look the key up to see what was kept"},
	{ErrUnavailable, "nothing took effect; retry with the same key"},
	{ErrUnreadable, "update this program, or look at them with the store's own tools; all others were dealt with"},
	{ErrClosed, "nothing was run; retry with the same key on another process"},
}

// Error is what the calls of this package return. It never carries a key or an answer in clear.
type Error struct {
	// Op is the operation of the key, or the step that failed.
	Op string
	// Key is the engine's keyed hash of the key, for logs; may be empty.
	Key string
	// Attempt is the attempt that the error speaks of; zero where there is none.
	Attempt int
	// Err is one of the errors above, or wraps one together with its cause.
	Err error
	// RetryAfter is when a retry makes sense; zero where none does.
	RetryAfter time.Duration
}

// Error says what is wrong and what the caller can do next.
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
	for _, a := range advice {
		if errors.Is(e.Err, a.err) {
			b.WriteString("; " + a.text)
			break
		}
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// mayBeApplied tells whether a store call that failed may have been applied all the same.
func mayBeApplied(err error) bool {
	for _, base := range []error{ErrLeaseLost, ErrInvalidKey, ErrTooLate, ErrInTransaction, errors.ErrUnsupported} {
		if errors.Is(err, base) {
			return false
		}
	}
	return true
}

// unavailable wraps the failure of a store. Its text may name hosts and files, never keys.
func unavailable(err error) error {
	if errors.Is(err, ErrInvalidKey) || errors.Is(err, ErrInTransaction) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// txError makes a failure of the database one of this package's errors. A database that says no has
// rolled back, so that nothing happened, whether or not fn ran.
func txError(err error) error {
	for _, known := range []error{
		ErrInProgress, ErrInDoubt, ErrFingerprintMismatch, ErrPrincipalChanged, ErrNotIssued, ErrLeaseLost, ErrInvalidKey,
		ErrInTransaction, ErrTxEnded, ErrUnconfirmed, ErrUnavailable,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return unavailable(err)
}
