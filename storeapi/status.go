package storeapi

// Status is a store's answer to Acquire and Issue.
type Status uint8

// The answers of a store.
const (
	// Won means that the caller runs the work. The record has the attempt and the fence.
	Won Status = iota + 1
	// StatusInProgress means that another attempt holds a live lease (Record.LeaseLeft).
	StatusInProgress
	// Finished means that the record has the answer.
	Finished
	// StatusInDoubt means that an earlier attempt may have taken effect.
	StatusInDoubt
	// Mismatch means that the key was used with another payload.
	Mismatch
	// PrincipalChanged means that the key was used with another credential.
	PrincipalChanged
	// FenceChanged means that IfFence was set, and that the record has another fence or is gone.
	FenceChanged
	// NotIssued means that MustBeIssued was set, and that the key is unknown or was not issued.
	NotIssued
	// AlreadyIssued means that Issue found a record of another owner.
	AlreadyIssued
	// OwnerSpent means that this owner, or the store for it, has released its attempt, and that the
	// owner cannot acquire the key again. Make a new owner.
	OwnerSpent
)

// Acquired is the answer to Acquire: the status, and the record as it is now.
type Acquired struct {
	Status Status
	Record Record
}

// Err is that of the status.
func (a *Acquired) Err() error { return a.Status.Err() }

// Err returns the error that a caller gets for the status: nil for Won and Finished.
func (s Status) Err() error {
	switch s {
	case Won, Finished:
		return nil
	case StatusInProgress:
		return ErrInProgress
	case StatusInDoubt:
		return ErrInDoubt
	case Mismatch:
		return ErrFingerprintMismatch
	case PrincipalChanged:
		return ErrPrincipalChanged
	case FenceChanged:
		return ErrFenceChanged
	case NotIssued, AlreadyIssued:
		return ErrNotIssued
	}
	// OwnerSpent among them: nothing ran, and another owner can acquire the key
	return ErrUnavailable
}
