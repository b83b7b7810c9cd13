package storeapi

import "context"

// Optional interfaces of a store. A method may return errors.ErrUnsupported, and the engine then
// does without it. So a wrapper can implement all of them and forward: it never hides what a store
// can do. storetest.RunWrapper tests a wrapper.
type (
	// Issuer makes keys that the server hands out.
	Issuer interface {
		// Issue returns StatusAcquired or StatusAlreadyIssued.
		Issue(context.Context, IssueRequest) (Status, error)
	}
	// Lister lists records for people. Pages are in a stable order; a record that stays is listed
	// once.
	Lister interface {
		List(context.Context, ListRequest) (Page, error)
	}
	// Notifier reports when a record may have changed, so that waiters need not ask so often. A
	// report is a hint: it may come too often, late, or not at all.
	Notifier interface {
		// Watch calls changed, which does not block, once when it listens, and then whenever an
		// attempt of key may have ended in any process. It returns when ctx ends, and when it
		// cannot listen any more.
		Watch(ctx context.Context, key StoreKey, changed func()) error
	}
	// Batcher makes calls for many keys at once, in as few round trips as the store can. A batch is
	// not a transaction: each call has its result at its own index, as if it had been made alone.
	// Calls for one key take effect in their order. An error of the batch itself means that no call
	// was made.
	Batcher interface {
		AcquireBatch(context.Context, []AcquireRequest) ([]BatchResult[Acquired], error)
		ExtendBatch(context.Context, []ExtendRequest) ([]error, error)
		CompleteBatch(context.Context, []CompleteRequest) ([]BatchResult[Record], error)
		ReleaseBatch(context.Context, []ReleaseRequest) ([]error, error)
	}
	// Limiter counts what tenants use, so that all processes on one store share one limit.
	Limiter interface {
		// Charge counts new keys and bytes of a tenant, or refuses new keys that are over a limit.
		// It has no owner: a charge that is sent twice counts twice. So a store that knows that it
		// has not counted, because it could not begin in time, returns [ErrTooLate].
		Charge(context.Context, ChargeRequest) (Charged, error)
	}
	// UsageReader reads what a [Limiter] has counted, for people. It writes nothing.
	UsageReader interface {
		// Usage returns what a tenant uses now; zero counts are no error.
		Usage(context.Context, UsageRequest) (Usage, error)
	}
	// Forgetter removes what a finished record tells of a person.
	Forgetter interface {
		// ForgetAnswer removes the answer, the fingerprint, the binding and the text of the last
		// error of a finished record. Its key, its state, its fence and its expiry stay: duplicates
		// run nothing, and get no answer. A repeated call changes nothing. [ErrFenceChanged] says
		// that the record has another fence or is gone, and [ErrInProgress] that it is not
		// finished; nothing was changed then.
		ForgetAnswer(context.Context, ForgetRequest) error
	}
	// Keeper reports whether the store can lose what it has confirmed.
	Keeper interface {
		// Keeps returns nil if what was confirmed survives a crash of a server and a failover, as
		// the store is set up now. Otherwise, and if the store cannot see it, the error says what
		// can be lost and which setting prevents that.
		Keeps(context.Context) error
	}
	// Sharer reports whether other services may keep their records in the same place. If so,
	// retrysafe.New requires a Namespace.
	Sharer interface {
		// Shared returns true for a server, false for memory and for a file of one machine.
		Shared() bool
	}
	// Sweeper removes expired records.
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
