package storeapi

import (
	"errors"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Errors of calls that were not applied; see [Store].
var (
	// ErrInvalidKey means that a part of a key is empty or too long, or that the text of a key
	// cannot be read.
	ErrInvalidKey = keytext.ErrInvalid

	// ErrLeaseLost means that the record is not, or no longer, that of the caller's attempt.
	ErrLeaseLost = errors.New("lease lost")

	ErrTooLate = errors.New("the call reached the store after its time limit and was not applied")

	// ErrInTransaction means that the store was called on the database of an open transaction that
	// it runs for its caller. The call would wait for that transaction, and that for the call.
	ErrInTransaction = errors.New("the engine was called on the database of the open DoTx")
)

// Errors of a transaction; see [TxStore] and [StepStore].
var (
	// ErrTxEnded is also for work that has changed the record of its own key. What it wrote after a
	// ROLLBACK as text may stand.
	ErrTxEnded = errors.New("the work has ended its transaction by itself")

	// ErrCommitRefused, as with a deferred constraint, stands for an error of the work, and wraps
	// that of the database.
	ErrCommitRefused = errors.New("COMMIT was refused because of what the work has written, and all was rolled back")

	// ErrUnconfirmed means that the reply to COMMIT was lost, and that the store does not know yet
	// whether the database has committed.
	ErrUnconfirmed = errors.New("the work is done, but the store has not confirmed its answer yet")
)

// Errors that callers get for a [Status]. The texts say what they mean.
var (
	ErrInProgress          = errors.New("the first attempt is still running")
	ErrInDoubt             = errors.New("an earlier attempt may have taken effect")
	ErrFingerprintMismatch = errors.New("the key was used with another payload")
	ErrPrincipalChanged    = errors.New("the key belongs to another credential of this caller")
	ErrFenceChanged        = errors.New("the record has changed since it was read")
	ErrNotIssued           = errors.New("key unknown, expired or another caller's")
	// ErrUnavailable also says that nothing took effect.
	ErrUnavailable = errors.New("store unavailable")
)
