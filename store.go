package retrysafe

import (
	"context"
	"fmt"
	"time"
)

// Store keeps records. Each call is atomic, may be repeated by its owner without harm, and may
// arrive late.
//
// A store answers with a [Status]. An error means that the call itself failed and may or may not
// have been applied. Only these errors say that it was not applied: [ErrLeaseLost],
// [ErrInvalidKey], [ErrTooLate], [ErrInTransaction] and errors.ErrUnsupported. Times are by the
// store's clock. All methods may be called concurrently. The clauses S1 to S20 of docs/design.md
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

// Err returns the error that a caller gets for the status: nil for Won and Finished.
func (a *Acquired) Err() error {
	switch a.Status {
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

// AcquireRequest asks for the right to run the work of a key.
type AcquireRequest struct {
	Key StoreKey
	// Owner is made once per Begin. Repeated calls carry the same one.
	Owner Owner
	// Fingerprint and Binding are compared with the record's if both have one; see [Record].
	Fingerprint, Binding []byte
	Lease, Retention     time.Duration
	// NotAfter is the store's time after which the request must not be applied; zero: no limit.
	NotAfter time.Time
	OnDoubt  OnDoubt
	// IfFence makes this a compare-and-set: it acquires the key only if the record still has this
	// fence (to resolve or redrive). Zero means off.
	IfFence Fence
	// Force lets IfFence acquire the key under a live lease too.
	Force bool
	// MustBeIssued refuses keys that the server has not issued.
	MustBeIssued bool
	// Asks says that the caller asks for the outcome of earlier attempts, or resolves them, and
	// does no work; see [Record].Asks. If it does work after that, it begins with an Extend with
	// Works.
	Asks bool
	// Copy, if it is not nil, is the record of this key that another store has. It is for callers
	// that keep a key in several stores. If the store grants the request, its record continues that
	// one: all fields are those of Copy, except Owner, Fence and the lease, which are those of this
	// request. So the attempt number and Created, and with them [Attempt.KeyFor], stay.
	//
	// If Copy is completed, failed or released, the new record is so too, for as long as Copy has
	// until it expires. Such a copy is made only if the key has no record, or has the fence
	// IfFence; otherwise the answer is [FenceChanged].
	Copy *Record
	// MinFence is the least fence of a new claim. If the holder of the key repeats its call, it
	// gets the fence that it has. It is for callers that keep a key in several stores, whose clocks
	// differ. Zero leaves the fence to the store.
	MinFence Fence
	// Until is a second limit like NotAfter, for callers that pass a request on and may do so for a
	// limited time only. It is not stored.
	Until time.Time
}

// Limit returns the earlier of NotAfter and Until: the store's time after which the request must
// not be applied. Zero means no limit.
func (r *AcquireRequest) Limit() time.Time {
	if r.NotAfter.IsZero() || !r.Until.IsZero() && r.Until.Before(r.NotAfter) {
		return r.Until
	}
	return r.NotAfter
}

// ExtendRequest asks for a new lease from now on.
type ExtendRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	Lease time.Duration
	// Works says that the work begins under an attempt that was acquired with Asks: from now on it
	// may have had an effect.
	Works bool
	// Progress, if it is not nil, is what has been done so far. It is stored in the same step as
	// the lease, as the Answer of the record, which has no other until its attempt has ended. Its
	// Codec is not empty. Its Size is its place in an order that continues from attempt to attempt.
	// If the Size is not above that of the record's progress, the call was repeated or came late:
	// the lease is renewed, and the stored progress stays.
	//
	// The next attempt that acquires the record finds it, after an expired lease, a Release or a
	// doubt. A record with progress keeps its fingerprint and binding when it is released. Complete
	// replaces the progress.
	Progress *Answer
}

// CompleteRequest ends an attempt with an answer.
type CompleteRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	// State is StateCompleted or StateFailed.
	State  State
	Answer Answer
	// Retention is counted from now. Zero means the one given to Acquire.
	Retention time.Duration
	// Quiet says that no caller is expected to wait for the end, so a [Notifier] need not report
	// it.
	Quiet bool
}

// ReleaseRequest ends an attempt without an answer.
type ReleaseRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	// Retention is counted from now. Zero means the one given to Acquire.
	Retention time.Duration
	// InDoubt says that the work may have taken effect: the lease ends now and the record stays in
	// progress.
	InDoubt bool
	// Quiet is as in [CompleteRequest].
	Quiet bool
	// Cause and LastError are stored in the record.
	Cause, LastError string
}

// Optional interfaces of a store. A method may return errors.ErrUnsupported, and the engine then
// does without it. So a wrapper can implement all of them and forward: wrapping a store never hides
// what it can do. storetest.RunWrapper tests a wrapper.
type (
	// Issuer makes keys that the server hands out.
	Issuer interface {
		// Issue returns Won (also if the same owner repeats the call) or AlreadyIssued.
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
	// keys, one CompleteBatch stores all answers. In the engine only [Engine.BeginBatch] and
	// [Engine.CompleteBatch] use it.
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
	// Keeper reports whether the store can lose what it has confirmed. It is for callers that
	// cannot do without any of it, such as the worker numbers of package idgen.
	Keeper interface {
		// Keeps returns nil if what was confirmed survives a crash of a server and a failover, as
		// the store is set up now. Otherwise, and if the store cannot see it, the error says what
		// can be lost and which setting prevents that.
		Keeps(context.Context) error
	}
	// Sharer reports whether other services may keep their records in the same place. If so, [New]
	// requires a Namespace.
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

// IssueRequest makes a key whose first use must come within Retention.
type IssueRequest struct {
	Key       StoreKey
	Owner     Owner
	Retention time.Duration
}

// ChargeRequest counts what a tenant uses, in all layers of a namespace.
//
// Only new keys (Keys above zero) are ever refused: if they would be more than Live, or come faster
// than PerSecond and Burst allow, or if the tenant has already used its Bytes. Everything else is
// counted as it is: bytes, and what a negative number gives back. Giving back takes what was
// counted last, and never brings a count below zero, nor the rate below idle.
type ChargeRequest struct {
	// Namespace and Tenant are as in [StoreKey]; an empty tenant is a tenant of its own.
	Namespace, Tenant string
	// Keys is the number of new keys, at most 100000. A negative number gives back.
	Keys int64
	// Bytes is the number of bytes that were stored, at most a TiB. A negative number gives back.
	Bytes int64
	// For is how long they count, by the store's clock: at least that, and at most a sixteenth
	// longer. See [Forever].
	For time.Duration
	// Limits are compared with what is counted. Zero and negative fields mean no limit. PerSecond
	// counts the keys that came with the same PerSecond. If a tenant has keys of 256 different
	// rates in use, keys of one more are refused for a moment.
	Limits Limits
}

// maxBytes is the most bytes in one charge.
const maxBytes = 1 << 40

// Validate returns an error, or nil. The error wraps [ErrInvalidKey] if namespace or tenant cannot
// be part of a key; otherwise it names a number that is out of bounds. The bounds make every store
// count alike, in floating point too.
func (r *ChargeRequest) Validate() error {
	l := &r.Limits
	switch {
	case r.For <= 0:
		return fmt.Errorf("retrysafe: Charge for %v; use a positive time", r.For)
	case r.Keys > maxBurst || r.Keys < -maxBurst:
		return fmt.Errorf("retrysafe: Charge of %d keys; use at most %d at once", r.Keys, maxBurst)
	case r.Bytes > maxBytes || r.Bytes < -maxBytes:
		return fmt.Errorf("retrysafe: Charge of %d bytes; use at most %d at once", r.Bytes, int64(maxBytes))
	case l.rateIsWrong():
		return fmt.Errorf("retrysafe: Charge at %v keys a second; use %v to %v, or a negative number for no limit", l.PerSecond, minRate, maxRate)
	case l.Burst > maxBurst:
		return fmt.Errorf("retrysafe: Charge with a burst of %d; use at most %d", l.Burst, maxBurst)
	}
	return StoreKey{r.Namespace, "limit", Key{r.Tenant, "limit", "limit"}}.Validate()
}

// Charged is the answer to Charge.
type Charged struct {
	// OK reports whether the charge was counted.
	OK bool
	// After is how long to wait before asking again, if the charge was not counted: for the rate,
	// the time until one more key conforms; otherwise the time until something that counts has
	// expired, 1 s to 60 s. The engine reports at most 60 s to its callers.
	After time.Duration
}

// ListRequest selects records; an empty field selects all.
type ListRequest struct {
	Namespace, Layer, Tenant, Operation string
	State                               State
	// InDoubt selects only records in doubt.
	InDoubt bool
	// Progress selects only unfinished records that have progress with a codec: those that a
	// [Worker] can finish. Their order is the store's, and a record that changes while pages are
	// read may be listed twice. Namespace, Layer and Operation make it cheap.
	Progress bool
	// After is the Next of the previous page.
	After string
	// Limit is the size of a page; default 100, at most 1000.
	Limit int
}

// Page is one page of records. An empty Next means that it is the last. The bodies of answers are
// left out.
type Page struct {
	Records []Record
	// Unreadable are records that this build cannot read, since they are of a newer version or
	// damaged. They do not hold up other records.
	Unreadable []Unreadable
	Next       string
}

// Unreadable is a record that this build cannot read, and why.
type Unreadable struct {
	Key StoreKey
	Err error
}
