package idgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// ErrTaken means that another holder has the number. [Numbers] return it.
var ErrTaken = errors.New("idgen: somebody holds this worker number")

// Numbers is a source of worker numbers for [Workers]; each number has one holder at a time. It is
// a store ([NewWorkers]) or ZooKeeper (adapters/zklock). It is safe for concurrent use.
//
// Only the reservations make ids unique. The reservations of a number only grow. Each is stored
// before Reserve returns. A new holder gets the last reservation, and from then on no earlier
// holder can raise it.
type Numbers interface {
	// Agree stores the layout of a namespace's ids for ever: the layout of the first call.
	// [ErrLayout] means that the namespace has another one. Agree also refuses a source that may
	// lose reservations, unless the source was configured to allow that.
	Agree(ctx context.Context, namespace string, layout Layout) error
	// Claim leases a number. [ErrTaken] means that another holder has it. After any other error it
	// is unknown whether the number was leased; if it was, it is released, or ends with its lease.
	Claim(ctx context.Context, r NumberRequest) (Claimed, error)
}

// OtherLayout returns the error of [Numbers].Agree for a namespace whose ids have the layout is,
// and not the one that was asked for. It wraps [ErrLayout].
func OtherLayout(is string, asked Layout) error {
	return fmt.Errorf("%w: it is %q, and not %v; ids of two layouts may be equal, so use that one, or a namespace whose ids are kept apart", ErrLayout, is, asked)
}

// NumberRequest asks for number Number of a namespace, for Lease from now.
type NumberRequest struct {
	Namespace string
	Number    int
	Lease     time.Duration
}

// Claimed is a leased number, with what was known of it when it was leased.
type Claimed struct {
	NumberLease
	// Fence is greater than that of every earlier holder.
	Fence retrysafe.Fence
	// Now is the time by the source's clock, at a moment between the call and its answer.
	Now time.Time
	// Reserved is the time up to which earlier holders may have made ids, or zero if there were
	// none.
	Reserved time.Time
	// Lost is closed when the source knows that the number is lost. It is nil if only Reserve
	// reports that.
	Lost <-chan struct{}
}

// NumberLease is the lease of a number. Its methods are called one at a time. A call whose context
// has ended may still be in progress when the next one starts, and must not undo its effect.
type NumberLease interface {
	// Reserve stores until, to the nanosecond, as the time that ids stay below, and renews the
	// lease from now. Times grow from call to call. [retrysafe.ErrLeaseLost] means that another
	// holder may have the number and that nothing was written. After any other error the outcome is
	// unknown, and the caller makes no id with these times.
	Reserve(ctx context.Context, until time.Time, lease time.Duration) error
	// Release ends the lease; the reservation stays. The cause is one word, for people who look at
	// the stored record.
	Release(ctx context.Context, cause string) error
}
