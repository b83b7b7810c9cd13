package storeapi

import "context"

// Optional interfaces of a store. A method may return errors.ErrUnsupported, and the engine then
// does without it. So a wrapper can implement all of them and forward: wrapping a store never hides
// what it can do. storetest.RunWrapper tests a wrapper.
type (
	// Issuer makes keys that the server hands out.
	Issuer interface {
		// Issue returns StatusAcquired (also if the same owner repeats the call) or
		// StatusAlreadyIssued.
		Issue(context.Context, IssueRequest) (Status, error)
	}
	// Lister lists records for people. Pages are in a stable order; a record that stays is listed
	// once.
	Lister interface {
		List(context.Context, ListRequest) (Page, error)
	}
	// Notifier reports when a record may have changed, so that waiters need not ask so often. A
	// report is a hint: it may come too often, late, or not at all, and waiters go on asking.
	Notifier interface {
		// Watch calls changed once when it listens, and then whenever an attempt of key may have
		// ended, whichever process ended it. It returns when ctx ends, and when it cannot listen
		// any more. changed does not block.
		Watch(ctx context.Context, key StoreKey, changed func()) error
	}
	// Batcher makes calls for many keys at once, in as few round trips as the store can. It is for
	// callers that take work in batches, as consumers of messages do: one AcquireBatch claims all
	// keys, one CompleteBatch stores all answers. In the engine only retrysafe.Engine.BeginBatch
	// and retrysafe.Engine.CompleteBatch use it.
	//
	// A batch is not a transaction: each call is atomic by itself, and calls of one batch may fail
	// separately. Each has its result at its own index, as if it had been made alone. Calls for one
	// key take effect in their order. A call whose error does not say that it was not applied may
	// have been applied, and may be repeated, in a batch or alone. An error of the batch itself
	// means that no call was made.
	Batcher interface {
		AcquireBatch(context.Context, []AcquireRequest) ([]BatchResult[Acquired], error)
		// ExtendBatch is a call of its own, so that leases do not wait for claims.
		ExtendBatch(context.Context, []ExtendRequest) ([]error, error)
		CompleteBatch(context.Context, []CompleteRequest) ([]BatchResult[Record], error)
		ReleaseBatch(context.Context, []ReleaseRequest) ([]error, error)
	}
	// Limiter counts what tenants use, so that all processes on one store share one limit; see
	// [Limits].
	Limiter interface {
		// Charge counts new keys and bytes of a tenant, or refuses new keys that are over a limit
		// and then changes nothing. It is atomic. Unlike other calls it has no owner by which a
		// store could recognise a repeated call: a charge that is sent twice counts twice, until
		// its time has passed. So a store that knows that it has not counted, because it could not
		// begin in time, returns [ErrTooLate].
		Charge(context.Context, ChargeRequest) (Charged, error)
	}
	// UsageReader reads what a [Limiter] has counted, for people. It counts nothing and writes
	// nothing.
	UsageReader interface {
		// Usage returns what a tenant uses now. A tenant of which nothing counts has the zero
		// counts; that is no error.
		Usage(context.Context, UsageRequest) (Usage, error)
	}
	// Keeper reports whether the store can lose what it has confirmed. It is for callers that
	// cannot do without any of it, such as the worker numbers of package idgen.
	Keeper interface {
		// Keeps returns nil if what was confirmed survives a crash of a server and a failover, as
		// the store is set up now. Otherwise, and if the store cannot see it, the error says what
		// can be lost and which setting prevents that.
		Keeps(context.Context) error
	}
	// Sharer reports whether other services may keep their records in the same place. If so,
	// retrysafe.New requires a Namespace.
	Sharer interface {
		// Shared reports whether others can reach the store: true for a server, false for memory
		// and for a file of one machine.
		Shared() bool
	}
	// Sweeper removes expired records, never one that is in progress or in doubt under Refuse.
	Sweeper interface {
		// Sweep removes at most limit records and returns how many. Fewer than limit means that no
		// more have expired.
		Sweep(ctx context.Context, limit int) (removed int, err error)
	}
)

// BatchResult is the result of one call of a batch.
type BatchResult[T any] struct {
	Value T
	Err   error
}
