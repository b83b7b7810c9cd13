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

// Handler does the work of a message. nil means that the work is done. After an error the work is
// tried again, unless retrysafe.NothingDone, InDoubt, Permanent or [Poison] say otherwise. A panic
// counts as an error. A handler must return when its context ends.
type Handler func(context.Context, *Message) error

// Poison marks err as final: the message can never be handled, because it cannot be decoded or
// breaks a rule that will not change. It becomes a dead letter at once. Poison(nil) is nil.
func Poison(err error) error { return retrysafe.Permanent(DeadPoison, err) }

// JSON returns a Handler that decodes the body and calls h. A body that is not JSON of a T is
// [Poison].
func JSON[T any](h func(context.Context, T, *Message) error) Handler {
	return func(ctx context.Context, m *Message) error {
		var v T
		if err := json.Unmarshal(m.Body, &v); err != nil {
			// The decoder's error may show parts of the body.
			return Poison(fmt.Errorf("mqidem: a body of %d bytes is no JSON of %T", len(m.Body), v))
		}
		return h(ctx, v, m)
	}
}

// errPanicked leaves out the value of a panic, which may show anything; only texts of the Go
// runtime are kept.
var errPanicked = errors.New("mqidem: the handler panicked")

// errExited means that the handler called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("mqidem: the handler ended its goroutine")

// call runs h on its own goroutine and turns a panic or a Goexit into an error. A Goexit then ends
// only that goroutine.
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

// run holds what Consume passes to a handler of this package for one message, and what the handler
// reports back. A zero run with a past is for a handler that Consume does not call: it has no limit
// of tries and no dead-letter queue.
type run struct {
	// limit is the maximum number of tries; zero means no limit.
	limit int
	// holds is how long a copy can stay in the queue; zero means unknown.
	holds time.Duration
	// park moves the message to the dead-letter queue; nil means that there is none.
	park func(context.Context, Reason) error
	// gaveUp ends when Consume stops waiting for the handler; nil means never.
	gaveUp context.Context
	// past is what earlier calls with the same delivery have left.
	past *past

	// The handler sets the fields below.

	// tries is the number of this try according to the record; zero means that none was counted.
	tries int
	// failed reports that the work itself failed, so the try counts.
	failed bool
	// parked reports that the message is a dead letter and settled.
	parked bool
	// repeat reports that the work was done before.
	repeat bool
}

// past is the state of a delivery that Consume holds and hands to the handler more than once.
type past struct {
	// dead is why the message must become a dead letter, which has failed so far. The work no
	// longer runs.
	dead *Reason
	// unanswered counts the claims that got no answer. The store may have counted each of them as a
	// try, although nothing ran.
	unanswered int
	// counted is the try that OnceTx has stored for this delivery.
	counted int
	// refused is how often the database has refused to commit a transaction of OnceTx.
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

// retentionError means that records of finished messages would expire while copies of the messages
// are still in the queue.
type retentionError struct{ retention, holds time.Duration }

func (e *retentionError) Error() string {
	return fmt.Sprintf("mqidem: records are kept for %v, and the broker may deliver a copy of a message %v later: it would be done again. "+
		"Nothing was run; raise Policy.Retention to that time, or let the broker keep messages for less", e.retention, e.holds)
}

// deadLetterError means that a message could not be moved to the dead-letter queue.
type deadLetterError struct{ cause error }

func (e *deadLetterError) Error() string {
	return "mqidem: the message is to become a dead letter, and could not be; it stays with the broker: " + e.cause.Error()
}
func (e *deadLetterError) Unwrap() error { return e.cause }

// what returns the outcome of the delivery: it is held and becomes a dead letter later, unless its
// connection is gone.
func (e *deadLetterError) what() string {
	if errors.Is(e.cause, ErrStale) || errors.Is(e.cause, ErrSettled) {
		return Left
	}
	return held
}
