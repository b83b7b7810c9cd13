package storeapi

import "context"

// Store keeps records. Each call is atomic, may be repeated by its owner without harm, and may
// arrive late.
//
// A store answers with a [Status]. An error means that the call itself failed and may or may not
// have been applied. Only these errors say that it was not applied: [ErrLeaseLost],
// [ErrInvalidKey], [ErrTooLate], [ErrInTransaction] and errors.ErrUnsupported. Times are by the
// store's clock. All methods may be called concurrently. The clauses S1 to S22 of docs/design.md
// are the contract; storetest.Run tests them.
type Store interface {
	// Acquire decides by the table of docs/design.md whether the caller may run the work. It
	// returns no later than ctx ends or NotAfter passes, and is never applied after NotAfter.
	Acquire(context.Context, AcquireRequest) (Acquired, error)
	// Extend renews the lease from now, and stores progress if the request has some. ErrLeaseLost
	// means that the record is no longer the caller's, and that nothing was changed.
	Extend(context.Context, ExtendRequest) error
	// Complete stores the answer and returns the stored record. A repeated call returns the first
	// record, unchanged. Complete is accepted after the lease has expired, as long as no other
	// attempt has taken over; otherwise the error is ErrLeaseLost.
	Complete(context.Context, CompleteRequest) (Record, error)
	// Release gives the key back: certainly nothing happened. With InDoubt it ends the lease at
	// once and keeps the record in progress. The error is ErrLeaseLost if the record is finished or
	// another attempt's.
	Release(context.Context, ReleaseRequest) error
	// Lookup returns the record. For an absent or expired key State is zero, Now is set, and the
	// error is nil.
	Lookup(context.Context, StoreKey) (Record, error)
}
