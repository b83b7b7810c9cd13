package retrysafe

import (
	"context"
	"fmt"
	"time"
)

// Store keeps records. Each call is atomic, may be repeated by its owner without harm, and may
// arrive late.
//
// A store answers with a [Status]; an error means that the call itself failed and that nobody knows
// whether it was applied, unless it is one of [ErrLeaseLost], [ErrInvalidKey], [ErrTooLate],
// [ErrInTransaction] and errors.ErrUnsupported, which say that it was not. Times are those of the
// store's clock. All methods may be called concurrently. The clauses S1 to S20 of docs/design.md
// are the contract; storetest.Run checks them.
type Store interface {
	// Acquire decides by the table of docs/design.md whether the caller may run the work. It
	// returns no later than ctx ends or NotAfter passes, and is never applied after NotAfter.
	Acquire(context.Context, AcquireRequest) (Acquired, error)
	// Extend renews the lease from now, and keeps progress if it is given. ErrLeaseLost: the record
	// is no longer the caller's, and nothing was changed.
	Extend(context.Context, ExtendRequest) error
	// Complete keeps the answer and returns the stored record; on a repeat that is the first one,
	// unchanged. It is accepted after the lease has passed, as long as nobody took over; else
	// ErrLeaseLost.
	Complete(context.Context, CompleteRequest) (Record, error)
	// Release gives the key back: certainly nothing happened. With InDoubt it ends the lease at
	// once and keeps the record in progress. ErrLeaseLost where the record is finished or
	// another's.
	Release(context.Context, ReleaseRequest) error
	// Lookup returns the record; of an absent or expired key State is zero, the error nil, and Now
	// set.
	Lookup(context.Context, StoreKey) (Record, error)
}

// Status is a store's answer to Acquire and Issue.
type Status uint8

// The answers of a store.
const (
	// Won: run the work; the record carries the attempt and the fence.
	Won Status = iota + 1
	// StatusInProgress: another attempt holds a live lease (Record.LeaseLeft).
	StatusInProgress
	// Finished: the record carries the answer.
	Finished
	// StatusInDoubt: an earlier attempt may have taken effect.
	StatusInDoubt
	// Mismatch: the key was used with another payload.
	Mismatch
	// PrincipalChanged: the key was used with another credential.
	PrincipalChanged
	// FenceChanged: IfFence was set and the record has another fence, or is gone.
	FenceChanged
	// NotIssued: MustBeIssued was set and the key is unknown or was not issued.
	NotIssued
	// AlreadyIssued: Issue met a record of another owner.
	AlreadyIssued
	// OwnerSpent: this owner has released its attempt and cannot win again; make a new owner.
	OwnerSpent
)

// Acquired is the answer to Acquire: the status, and the record as it is now.
type Acquired struct {
	Status Status
	Record Record
}

// Err returns the error that a caller is told for the status: nil for Won and Finished.
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
	case OwnerSpent:
		return ErrLeaseLost
	}
	return ErrUnavailable
}

// AcquireRequest asks to run the work of a key.
type AcquireRequest struct {
	Key StoreKey
	// Owner is made once per Begin; repeats carry the same.
	Owner Owner
	// Fingerprint and Binding are compared with the record's where both have one; see [Record].
	Fingerprint, Binding []byte
	Lease, Retention     time.Duration
	// NotAfter is the store's time after which the request must not be applied; zero: no limit.
	NotAfter time.Time
	OnDoubt  OnDoubt
	// IfFence makes this a compare-and-set: it wins only if the record still has this fence
	// (resolve, redrive). Zero: off.
	IfFence Fence
	// Force lets IfFence win under a live lease too.
	Force bool
	// MustBeIssued refuses keys that the server has not issued.
	MustBeIssued bool
	// Asks says that the winner asks what became of the attempts before it, or settles them, and
	// does no work; see [Record].Asks. The work of a winner that asked begins with an Extend with
	// Works.
	Asks bool
	// Worked are attempts that the store is to keep with its own as [Record].Earlier, if this wins:
	// for those who keep a key in several stores.
	Worked []Worked
	// MinFence is the least fence of a new win (a repeat of the winner has the one that it has):
	// for those who keep a key in several stores, whose clocks differ. Zero: the store's own.
	MinFence Fence
	// Until is a second limit like NotAfter, of those who pass a request on and may do so for a
	// limited time only. Nothing is kept of it.
	Until time.Time
}

// Limit is the earlier of NotAfter and Until: the store's time after which the request must not be
// applied; zero: no limit.
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
	// Progress, where it is not nil, is kept in the same step as the Answer of the record, which
	// has no other until its attempt has ended: what has been done so far. Its Codec is not empty.
	// Its Size is its place in an order that goes on from attempt to attempt: progress whose Size
	// is not above that of the record's is a repeat or came late; then the lease is renewed, and
	// what is kept stays.
	//
	// Whoever wins the record next finds it, after a lapse, a Release or a doubt, and a record that
	// has it keeps fingerprint and binding when it is released. Complete replaces it.
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
	// Retention is counted from now; zero takes the one given to Acquire.
	Retention time.Duration
	// Quiet says that nobody is expected to wait for the end, so that a [Notifier] need not tell of
	// it.
	Quiet bool
}

// ReleaseRequest ends an attempt without an answer.
type ReleaseRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	// Retention is counted from now; zero takes the one given to Acquire.
	Retention time.Duration
	// InDoubt says that it may have happened: the lease ends now and the record stays in progress.
	InDoubt bool
	// Quiet is as in [CompleteRequest].
	Quiet bool
	// Cause and LastError are kept in the record.
	Cause, LastError string
}

// Optional interfaces. A method may answer errors.ErrUnsupported, and the engine then does without:
// a wrapper implements every one of them and forwards, so that wrapping a store never hides what it
// can do. storetest.RunWrapper checks a wrapper.
type (
	// Issuer makes keys that the server hands out.
	Issuer interface {
		// Issue answers Won (also to a repeat by the same owner) or AlreadyIssued.
		Issue(context.Context, IssueRequest) (Status, error)
	}
	// Lister shows records to people. Pages are in a stable order; a record that stays is listed
	// once.
	Lister interface {
		List(context.Context, ListRequest) (Page, error)
	}
	// Notifier tells when a record may have changed, so that those who wait for it need not ask so
	// often. It is a hint: it may come too often, late, or not at all, and whoever waits goes on
	// asking.
	Notifier interface {
		// Watch calls changed once it listens, and then whenever an attempt of key may have ended,
		// whoever ended it. It returns when ctx ends, and when it cannot listen any more. changed
		// does not block.
		Watch(ctx context.Context, key StoreKey, changed func()) error
	}
	// Batcher makes calls for many keys at once, in as few round trips as the store can. It is for
	// those who take work in batches, as consumers of messages do: one AcquireBatch claims all of
	// them, one CompleteBatch keeps what was done. The engine has no use for it.
	//
	// A batch is no transaction: each call is atomic by itself, and calls of one batch may fail
	// apart. Each has its answer at its own place, as if it had been made alone; calls for one key
	// take effect in their order. A call whose error does not say that it was not applied may have
	// been applied, and may be repeated, in a batch or alone. An error of the batch itself says
	// that no call was made.
	Batcher interface {
		AcquireBatch(context.Context, []AcquireRequest) ([]BatchResult[Acquired], error)
		// ExtendBatch travels by itself, so that leases do not wait behind claims.
		ExtendBatch(context.Context, []ExtendRequest) ([]error, error)
		CompleteBatch(context.Context, []CompleteRequest) ([]BatchResult[Record], error)
		ReleaseBatch(context.Context, []ReleaseRequest) ([]error, error)
	}
	// Limiter counts what tenants have, so that all processes on one store share one limit; see
	// [Limits].
	Limiter interface {
		// Charge counts new keys and bytes of a tenant, or refuses new keys that are over a limit,
		// and then changes nothing. It is atomic. Unlike other calls it has no owner that would
		// tell a repeat: one that is sent twice counts twice, until its time has passed. So a store
		// that knows that it has not counted, since it could not begin in time, says so with
		// [ErrTooLate].
		Charge(context.Context, ChargeRequest) (Charged, error)
	}
	// Keeper says whether what it has confirmed can be lost, for those who cannot do without any of
	// it, such as the worker numbers of package idgen.
	Keeper interface {
		// Keeps returns nil where what was confirmed survives a crash of a server and a failover,
		// as the store is set up now. Otherwise, and where the store cannot see it, the error says
		// what can be lost and which setting ends that.
		Keeps(context.Context) error
	}
	// Sharer says whether other services may keep their records in the same place. Then [New] asks
	// for a Namespace.
	Sharer interface {
		// Shared is true for a server that others can reach, and false for memory and for a file of
		// one machine.
		Shared() bool
	}
	// Sweeper removes what has expired, never what is in progress or in doubt under Refuse.
	Sweeper interface {
		// Sweep removes at most limit records and says how many; fewer than limit means that it is
		// through.
		Sweep(ctx context.Context, limit int) (removed int, err error)
	}
)

// BatchResult is what one call of a batch was answered.
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

// ChargeRequest counts what a tenant takes, in all layers of a namespace.
//
// Only new keys (Keys above zero) are ever refused: when they would be more than Live or come
// faster than PerSecond and Burst allow, or when Bytes are taken already. Everything else is
// counted as it is: bytes, and what is given back by a negative number, which takes what was
// counted last and never brings a count below zero, nor the rate below idle.
type ChargeRequest struct {
	// Namespace and Tenant are as in [StoreKey]; an empty tenant is one of its own.
	Namespace, Tenant string
	// Keys is how many keys are new, at most 100000; negative gives back.
	Keys int64
	// Bytes is how many bytes were stored, at most a TiB; negative gives back.
	Bytes int64
	// For is how long they count, by the store's clock: at least that, and at most a sixteenth
	// longer. See [Forever].
	For time.Duration
	// Limits are compared with what is counted; zero and negative fields are no limits. PerSecond
	// counts the keys that came with the same PerSecond; of a tenant that has keys of 256 different
	// ones under way, those of one more are refused for a moment.
	Limits Limits
}

// maxBytes is the most of bytes in one charge.
const maxBytes = 1 << 40

// Validate returns an error that wraps [ErrInvalidKey] where namespace or tenant cannot be those of
// a key, or one about a number that is out of bounds: those are such that every store counts alike,
// also in floating point.
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
	// OK: it was counted.
	OK bool
	// After is when to ask again where it was not: for the rate the time until one more key
	// conforms, else the time until something that counts has passed, 1 s to 60 s. What the engine
	// tells its callers is at most 60 s.
	After time.Duration
}

// ListRequest selects records; an empty field selects all.
type ListRequest struct {
	Namespace, Layer, Tenant, Operation string
	State                               State
	// InDoubt selects records in doubt only.
	InDoubt bool
	// Progress selects unfinished records that keep progress with a codec only: what a [Worker] can
	// finish. Their order is the store's, and a record that changes while pages are read may come
	// twice. Namespace, Layer and Operation make it cheap.
	Progress bool
	// After is Page.Next of the page before.
	After string
	// Limit is the size of a page; default 100, at most 1000.
	Limit int
}

// Page is one page of records; an empty Next means that it is the last. Answers' bodies are left
// out.
type Page struct {
	Records []Record
	// Unreadable are records that this build cannot read: of a newer version, or damaged. They hold
	// up no others.
	Unreadable []Unreadable
	Next       string
}

// Unreadable is a record that this build cannot read, and why.
type Unreadable struct {
	Key StoreKey
	Err error
}
