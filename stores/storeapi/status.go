package storeapi

// Status is a store's answer to Acquire and Issue.
type Status uint8

// The answers of a store, by the table of docs/architecture.md.
const (
	StatusAcquired         Status = iota + 1 // the caller runs the work
	StatusInProgress                         // another attempt has a live lease
	StatusFinished                           // the record has the answer
	StatusInDoubt                            // an earlier attempt may have taken effect
	StatusMismatch                           // the key was used with another payload
	StatusPrincipalChanged                   // the key was used with another credential
	// the record does not have the fence IfFence, or is gone
	StatusFenceChanged
	// MustBeIssued was set, and the server has not issued the key
	StatusNotIssued
	StatusAlreadyIssued // Issue found a record of another owner
	// this owner has released its attempt; make a new owner
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
