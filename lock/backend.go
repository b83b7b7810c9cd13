package lock

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Request says which lock a call is about, for which owner, and for how long.
type Request struct {
	// Name has 1 to [MaxName] bytes, any but NUL. Backends must not truncate it or fold its case.
	Name string
	// Owner is 16 random bytes, different for each attempt to hold the lock.
	Owner storeapi.Owner
	// Lease is how long the lock stays held without an Extend call. A backend may grant less; see
	// [Grant].
	Lease time.Duration
}

// Grant is what TryLock returns to the new holder.
type Grant struct {
	// Fence is greater than that of every earlier grant of this name, for as long as the backend
	// remembers the name.
	Fence retrysafe.Fence
	// Lease is how long the lock is certainly held, counted from the start of the call. It is also
	// the most that Extend grants. Zero means as long as requested.
	Lease time.Duration
	// Done is closed when the backend knows that the lock is lost, so that the holder need not wait
	// for the end of the lease. It is nil if only Extend reports a loss.
	Done <-chan struct{}
}

// Backend is the interface that a lock server implements. [Locker] adds queues of waiters,
// heartbeats, reentrancy, contexts and limits.
//
// All methods can be called concurrently. For one owner, only Extend is called concurrently with
// another method. A method returns soon after its context has ended. An error that is not one of
// this package's errors means that it is unknown whether the call was applied.
//
// Package locktest specifies what a backend must do, clause by clause, and tests it.
type Backend interface {
	// TryLock acquires the lock if no owner has it, and does not wait. If the owner has it already,
	// TryLock grants the same fence and a new lease. [ErrHeld] means that another owner has it;
	// then this one has at most the place in a queue that Wait gave it.
	TryLock(context.Context, Request) (Grant, error)
	// Wait returns nil when it is worth calling TryLock again. It may sometimes return too early.
	// Events since that owner's last TryLock count: Wait does not wait for a lock that is free by
	// now. The owner may have a place in a queue from then on, until it calls Unlock.
	Wait(context.Context, Request) error
	// Extend makes the lease last at least Request.Lease from now. [ErrLost] means that the owner
	// does not have the lock.
	Extend(context.Context, Request) error
	// Unlock releases the lock, and the owner's place in the queue. It returns nil if the owner has
	// neither any more, and [ErrLost] if it had neither before, as far as the backend can tell. A
	// second call after a nil may return either.
	Unlock(context.Context, Request) error
}

// Passer is a [Backend] that can move a lock from one owner to another in one call. [Locker] uses
// it when a holder releases a lock for which another caller of its process waits. That takes one
// round trip in place of two.
type Passer interface {
	// Pass releases the lock of from, and grants it to next, for the same name. No other owner can
	// get it in between, and no waiter is woken. If next has the lock already, Pass grants the same
	// fence and a new lease, as TryLock does. A lease that is over can be passed until another
	// owner has the lock. [ErrLost] means that neither of them has the lock, or that the one that
	// had it has released it, and that Pass did nothing. An error that wraps
	// [errors.ErrUnsupported] means that the backend cannot pass locks as it is configured, and
	// that Pass did nothing.
	//
	// Wait returns for an owner that has the lock, since the answer to Pass may be lost.
	Pass(ctx context.Context, from, next Request) (Grant, error)
}

// MaxName is the maximum length of a name, in bytes.
const MaxName = 200
