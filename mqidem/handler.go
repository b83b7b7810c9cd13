package mqidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Handler does the work of a message. nil: it is done. An error: it failed, and is tried again, as
// retrysafe.NothingDone, InDoubt, Permanent and [Poison] say. A panic is an error. It must end when
// its context does.
type Handler func(context.Context, *Message) error

// Poison says that a message can never be handled: it cannot be decoded, or breaks a rule that will
// not change. It is parked at once. Poison(nil) is nil.
func Poison(err error) error { return retrysafe.Permanent(DeadPoison, err) }

// JSON makes a Handler of one that takes a decoded body. A body that is no JSON of a T is [Poison].
func JSON[T any](h func(context.Context, T, *Message) error) Handler {
	return func(ctx context.Context, m *Message) error {
		var v T
		if err := json.Unmarshal(m.Body, &v); err != nil {
			// The decoder's own words may show parts of the body.
			return Poison(fmt.Errorf("mqidem: a body of %d bytes is no JSON of %T", len(m.Body), v))
		}
		return h(ctx, v, m)
	}
}

// errPanicked: the value of a panic may show anything, so only the runtime's own texts are kept.
var errPanicked = errors.New("mqidem: the handler panicked")

// errExited: runtime.Goexit, as t.FailNow calls it.
var errExited = errors.New("mqidem: the handler ended its goroutine")

// call runs h on a goroutine of its own, so that one that ends its goroutine takes nothing else
// with it, and makes that and a panic an error.
func call(h func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { ended <- err }()
		defer func() {
			switch v := recover().(type) {
			case nil:
			case runtime.Error:
				err = fmt.Errorf("%w: %w", errPanicked, v)
			default:
				err = fmt.Errorf("%w with a %T", errPanicked, v)
			}
		}()
		err = h()
	}()
	return <-ended
}

// run is what Consume tells a handler of this package of one message, and hears from it. Its zero
// value, with a past, is that of a handler that is called by somebody else: no limit, and nobody
// parks.
type run struct {
	// limit is how many tries there are; zero: any number.
	limit int
	// holds is how long a copy may lie in the queue; zero: not known.
	holds time.Duration
	// park parks the message; nil: nobody does.
	park func(context.Context, Reason) error
	// gaveUp ends when Consume has given up waiting for the handler; nil: never.
	gaveUp context.Context
	// past is what earlier turns with the same delivery have left.
	past *past

	// What follows is the handler's to say.

	// tries is which try this was, by the record; zero: none was counted.
	tries int
	// failed: the work itself failed, and the try counts.
	failed bool
	// parked: the message is dead, and settled.
	parked bool
	// repeat: it was done before.
	repeat bool
}

// past is what is known of a delivery that is held in hand for more than one turn.
type past struct {
	// dead is why it is to be parked, which has failed so far: nothing is run any more.
	dead *Reason
	// unanswered are claims whose answers did not come: each may have been an attempt, which ran
	// nothing.
	unanswered int
	// counted is the try that was written down for this delivery, of OnceTx.
	counted int
	// refused is how often the database has not taken the end of a transaction of OnceTx.
	refused int
	// turns is how often a handler without a record has failed.
	turns int
}

func (m *Message) told() *run {
	if m.run == nil {
		return &run{past: new(past)}
	}
	return m.run
}

// retentionError: records of finished messages would be gone while copies still lie in the queue.
type retentionError struct{ retention, holds time.Duration }

func (e *retentionError) Error() string {
	return fmt.Sprintf("mqidem: records are kept for %v, and the broker may deliver a copy of a message %v later: it would be done again. "+
		"Nothing was run; raise Policy.Retention to that time, or let the broker keep messages for less", e.retention, e.holds)
}

// parkError: a message that should be parked could not be.
type parkError struct{ cause error }

func (e *parkError) Error() string {
	return "mqidem: the message is to be parked, and could not be; it stays with the broker: " + e.cause.Error()
}
func (e *parkError) Unwrap() error { return e.cause }

// what becomes of the delivery: it is held, and parked later, unless its connection is gone.
func (e *parkError) what() string {
	if errors.Is(e.cause, ErrStale) || errors.Is(e.cause, ErrSettled) {
		return Left
	}
	return held
}
