package lock

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Request is what a backend is asked: who, for what, and for how long.
type Request struct {
	// Name is 1 to [MaxName] bytes, any but NUL. Backends never cut or fold it.
	Name string
	// Owner is of one try to hold the lock, and of no other: 16 random bytes.
	Owner retrysafe.Owner
	// Lease is how long the lock is held without another word of its owner. A backend may grant
	// less; see [Grant].
	Lease time.Duration
}

// Grant is what a holder got.
type Grant struct {
	// Fence is greater than that of every grant of this name before, for as long as the backend
	// remembers the name.
	Fence retrysafe.Fence
	// Lease is how long the lock is surely held from the moment at which the call was begun, and
	// the most that Extend gives; zero: as long as is asked for.
	Lease time.Duration
	// Done is closed once the backend knows that the lock is lost, so that nobody has to wait for
	// the lease; nil where only Extend tells.
	Done <-chan struct{}
}

// Backend is what a server must give. Waiting in turn, heartbeats, re-entry, contexts and bounds
// are written once, in [Locker].
//
// All methods may be called concurrently, for one owner one at a time but for Extend. They return
// soon after their context has ended. An error that is none of this package means that nobody knows
// whether the call was applied.
//
// Package locktest says what a backend must do, clause by clause, and finds out whether it does.
type Backend interface {
	// TryLock takes the lock if nobody has it, without waiting for it. Asked again by the owner
	// that has it, it grants the same fence, and a lease from then on. [ErrHeld]: another owner has
	// it, and this one has nothing but the place in a queue that Wait may have given it.
	TryLock(context.Context, Request) (Grant, error)
	// Wait returns nil when it is worth calling TryLock again; now and then it may return too
	// early. What happened between that owner's last TryLock and this call counts: a lock that is
	// free by now is not waited for. The owner may have a place in a queue from then on, until it
	// calls Unlock.
	Wait(context.Context, Request) error
	// Extend makes the lease last at least Request.Lease from now. [ErrLost]: the owner does not
	// have the lock.
	Extend(context.Context, Request) error
	// Unlock ends what the owner has: the lock, and a place in the queue. Nil where there is
	// nothing of it any more; [ErrLost] where there was nothing before, as far as the backend can
	// tell. A repeat after a nil may be told either.
	Unlock(context.Context, Request) error
}

// MaxName is the longest name, in bytes.
const MaxName = 200
