package storeapi

// Status is a store's answer to Acquire and Issue.
type Status uint8

// The answers of a store.
const (
	// StatusAcquired means that the caller runs the work. The record has the attempt and the fence.
	StatusAcquired Status = iota + 1
	// StatusInProgress means that another attempt holds a live lease (Record.LeaseLeft).
	StatusInProgress
	// StatusFinished means that the record has the answer.
	StatusFinished
	// StatusInDoubt means that an earlier attempt may have taken effect.
	StatusInDoubt
	// StatusMismatch means that the key was used with another payload.
	StatusMismatch
	// StatusPrincipalChanged means that the key was used with another credential.
	StatusPrincipalChanged
	// StatusFenceChanged means that IfFence was set, and that the record has another fence or is
	// gone.
	StatusFenceChanged
	// StatusNotIssued means that MustBeIssued was set, and that the key is unknown or was not
	// issued.
	StatusNotIssued
	// StatusAlreadyIssued means that Issue found a record of another owner.
	StatusAlreadyIssued
	// StatusOwnerSpent means that this owner has released its attempt, and cannot acquire the key
	// again. Make a new owner.
	StatusOwnerSpent
)

// Acquired is the answer to Acquire: the status, and the record as it is now.
type Acquired struct {
	Status Status
	Record Record
}

// Err is that of the status.
func (a *Acquired) Err() error { return a.Status.Err() }

// Err returns the error that a caller gets for the status: nil for StatusAcquired and
// StatusFinished.
func (s Status) Err() error {
	switch s {
	case StatusAcquired, StatusFinished:
		return nil
	case StatusInProgress:
		return ErrInProgress
	case StatusInDoubt:
		return ErrInDoubt
	case StatusMismatch:
		return ErrFingerprintMismatch
	case StatusPrincipalChanged:
		return ErrPrincipalChanged
	case StatusFenceChanged:
		return ErrFenceChanged
	case StatusNotIssued, StatusAlreadyIssued:
		return ErrNotIssued
	}
	// StatusOwnerSpent among them: nothing ran, and another owner can acquire the key
	return ErrUnavailable
}
