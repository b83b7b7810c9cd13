package idgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// ErrTaken is what [Numbers] answer where somebody holds the number.
var ErrTaken = errors.New("idgen: somebody holds this worker number")

// Numbers is where [Workers] have their numbers from, each held by one at a time: a store
// ([NewWorkers]), or ZooKeeper (adapters/zklock). It is safe for concurrent use.
//
// That ids are unique rests on the reservations alone: those of a number only grow, each is kept
// before Reserve says so, and whoever takes the number is told the last one, which no holder before
// can raise from then on.
type Numbers interface {
	// Agree keeps what the ids of a namespace look like, once for all: the layout of the first
	// call. [ErrLayout]: it is another one. It also refuses a source that may lose reservations,
	// unless its maker was told otherwise.
	Agree(ctx context.Context, namespace string, layout Layout) error
	// Take takes a number for a lease. [ErrTaken]: somebody holds it. With any other error nobody
	// knows; what may have been taken is given back, or ends with its lease.
	Take(ctx context.Context, r NumberRequest) (Taken, error)
}

// OtherLayout is the error of [Numbers].Agree where the ids of the namespace have the layout is,
// and not what was asked for. It wraps [ErrLayout].
func OtherLayout(is string, asked Layout) error {
	return fmt.Errorf("%w: it is %q, and not %v; ids of two layouts may be equal, so use that one, or a namespace whose ids are kept apart", ErrLayout, is, asked)
}

// NumberRequest is what is asked for: number Number of a namespace, for Lease from now.
type NumberRequest struct {
	Namespace string
	Number    int
	Lease     time.Duration
}

// Taken is a number with what was known of it when it was taken.
type Taken struct {
	NumberLease
	// Fence is greater than that of every holder before.
	Fence retrysafe.Fence
	// Now is the time by the source's clock, at a moment between the call and its answer.
	Now time.Time
	// Reserved is up to when holders before may have made ids; zero: there was none.
	Reserved time.Time
	// Lost is closed once the source knows that the number is not held any more; nil where only
	// Reserve tells.
	Lost <-chan struct{}
}

// NumberLease is the hold on a number. Its methods are called one at a time; a call whose context
// has ended may still be under way when the next one comes, and must not undo it.
type NumberLease interface {
	// Reserve keeps until, in nanoseconds since 1970, as the time that ids stay below, and holds
	// the number for lease from now. Calls come with times that grow. [retrysafe.ErrLeaseLost]: the
	// number is not this holder's any more, and nothing was written. With any other error nobody
	// knows, and the caller makes no id of these times.
	Reserve(ctx context.Context, until int64, lease time.Duration) error
	// Release ends the hold; the reservation stays. The cause is one word, for people who look at
	// what is kept.
	Release(ctx context.Context, cause string) error
}
