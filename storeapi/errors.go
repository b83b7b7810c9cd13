package storeapi

import "errors"

// Errors by which a store says that a call was certainly not applied. errors.ErrUnsupported says
// so too. After any other error the call may have been applied.
var (
	// ErrInvalidKey means that a part of a key is empty or too long, or that the text of a key
	// cannot be read. Correct the key; a retry would get the same error.
	ErrInvalidKey = errors.New("invalid key")

	// ErrLeaseLost means that the record is not, or no longer, that of the caller's attempt.
	ErrLeaseLost = errors.New("lease lost")

	// ErrTooLate means that the call reached the store after its time limit and was not applied.
	ErrTooLate = errors.New("the call reached the store after its time limit and was not applied")

	// ErrInTransaction means that the store was called on the database of an open transaction that
	// it runs for its caller. The call would wait for that transaction, and that for the call.
	ErrInTransaction = errors.New("the engine was called on the database of the open DoTx")
)

// Errors of a transaction; see [TxStore] and [StepStore].
var (
	// ErrTxEnded means that the work has committed or rolled back its transaction itself, or has
	// changed the record of its own key. What it wrote after a ROLLBACK as text may stand.
	ErrTxEnded = errors.New("the work has ended its transaction by itself")

	// ErrCommitRefused means that the database has refused COMMIT because of what the work has
	// written, as with a deferred constraint. All was rolled back. It stands for an error of the
	// work, and wraps that of the database.
	ErrCommitRefused = errors.New("COMMIT was refused because of what the work has written, and all was rolled back")

	// ErrUnconfirmed means that the reply to COMMIT was lost, and that the store could not find out
	// yet whether the database has committed.
	ErrUnconfirmed = errors.New("the work is done, but the store has not confirmed its answer yet")
)

// Errors for the status of a claim that was not granted; see [Acquired.Err].
var (
	// ErrInProgress means that another attempt of the key is running.
	ErrInProgress = errors.New("the first attempt is still running")

	// ErrInDoubt means that the work may have taken effect and that its outcome is unknown.
	ErrInDoubt = errors.New("an earlier attempt may have taken effect")

	// ErrFingerprintMismatch means that the key was used before with another payload.
	ErrFingerprintMismatch = errors.New("the key was used with another payload")

	// ErrPrincipalChanged means that the key was used before with another credential.
	ErrPrincipalChanged = errors.New("the key belongs to another credential of this caller")

	// ErrFenceChanged means that the record has changed since it was read.
	ErrFenceChanged = errors.New("the record has changed since it was read")

	// ErrNotIssued means that the key was to be issued by the server, and is unknown, expired or
	// not issued; or that Issue found a record of another owner.
	ErrNotIssued = errors.New("key unknown, expired or another caller's")

	// ErrUnavailable means that the store cannot be reached or fails, and that nothing took effect.
	ErrUnavailable = errors.New("store unavailable")
)
