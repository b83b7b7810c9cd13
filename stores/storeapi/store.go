package storeapi

import "context"

// Store keeps records. Its contract is the clauses S1 to S23 of docs/guarantees.md. Each call is
// atomic, may be repeated by its owner without harm, and may arrive late. Times are by the store's
// clock. All methods may be called concurrently.
//
// A store answers with a [Status]. An error means that the call itself failed and may have been
// applied. Only these errors say that it was not: [ErrLeaseLost], [ErrInvalidKey], [ErrTooLate],
// [ErrInTransaction] and errors.ErrUnsupported.
type Store interface {
	// Acquire decides by the table of docs/architecture.md whether the caller may run the work. It
	// returns no later than ctx ends or NotAfter passes.
	Acquire(context.Context, AcquireRequest) (Acquired, error)
	// Extend renews the lease from now, and stores progress if the request has some.
	Extend(context.Context, ExtendRequest) error
	// Complete stores the answer and returns the stored record. A repeated call returns the first
	// record. Complete is accepted after the lease too, as long as no other attempt has taken over.
	Complete(context.Context, CompleteRequest) (Record, error)
	// Release gives the key back: certainly nothing happened. The error is [ErrLeaseLost] if the
	// record is finished.
	Release(context.Context, ReleaseRequest) error
	// Lookup returns the record. For an absent or expired key State is zero, Now is set, and the
	// error is nil.
	Lookup(context.Context, StoreKey) (Record, error)
}
