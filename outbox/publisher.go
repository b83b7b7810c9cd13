package outbox

import (
	"context"
	"errors"
)

// Publisher hands messages to a broker. Several goroutines call it concurrently, each with messages
// of its own partition.
type Publisher interface {
	// Publish returns one error for each message, in the same order. nil means that the broker has
	// confirmed the message, and the relay never publishes it again. After any error the message
	// may have been published all the same. The relay publishes it again later, with the same ID.
	//
	//   - An error that wraps one of [Permanent] is final: the message is dead at once.
	//   - An error of [Unavailable] means that the broker cannot be reached. It is not counted as
	//     an attempt, and the partition waits.
	//   - Any other error is counted as an attempt. The message holds up its key meanwhile.
	//
	// When ctx ends, Publish must return without delay, since another relay may then have the
	// messages. A panic, or a wrong number of errors, counts as an error of each message.
	//
	// No two messages of a batch have the same key, unless the publisher is [Ordered]. A publisher
	// must not change or keep the batch.
	Publish(ctx context.Context, batch []Outgoing) []error
}

// Ordered is a Publisher that keeps the order of a key within a batch: if a message is not
// confirmed, no later message of that key reaches the broker after it in the same call. Such a
// publisher gets several messages of one key at once, which is faster if few keys have many
// messages. For messages that it held back it returns an error such as [ErrHeldUp], which is not
// counted as an attempt.
//
// A client that sends all messages and then waits for confirmations is not Ordered: the broker may
// accept the second message and refuse the first.
type Ordered interface {
	Publisher
	// KeepsOrder reports whether the guarantee above holds for the publisher's configuration.
	KeepsOrder() bool
}

// ErrHeldUp is for messages that were not sent because an earlier one of the same key was not
// confirmed.
var ErrHeldUp = errors.New("outbox: an earlier message of the key was not confirmed")

// permanent and unavailable are what Permanent and Unavailable return.
type (
	permanent   struct{ cause error }
	unavailable struct{ cause error }
)

func (e *permanent) Error() string   { return "permanent: " + e.cause.Error() }
func (e *permanent) Unwrap() error   { return e.cause }
func (e *unavailable) Error() string { return "the broker is not available: " + e.cause.Error() }
func (e *unavailable) Unwrap() error { return e.cause }

// Permanent marks err as final: publishing the message again would fail again, because it is too
// large or its topic is refused.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

// Unavailable marks err as independent of the message: the broker cannot be reached or accepts no
// messages at present.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &unavailable{err}
}

func isPermanent(err error) bool {
	var e *permanent
	return errors.As(err, &e)
}

func isUnavailable(err error) bool {
	var e *unavailable
	return errors.As(err, &e)
}

// OneByOne returns an [Ordered] publisher that calls send for one message after the other. Several
// goroutines call send concurrently.
func OneByOne(send func(context.Context, Outgoing) error) Ordered { return oneByOne(send) }

type oneByOne func(context.Context, Outgoing) error

func (oneByOne) KeepsOrder() bool { return true }

func (send oneByOne) Publish(ctx context.Context, batch []Outgoing) []error {
	errs := make([]error, len(batch))
	failed := map[string]bool{}
	var away error
	for i, m := range batch {
		switch {
		case ctx.Err() != nil:
			errs[i] = Unavailable(ctx.Err())
			continue
		case away != nil:
			errs[i] = away
			continue
		case failed[m.Key]:
			errs[i] = ErrHeldUp
			continue
		}
		if errs[i] = send(ctx, m); errs[i] != nil {
			failed[m.Key] = m.Key != ""
			if isUnavailable(errs[i]) {
				away = errs[i]
			}
		}
	}
	return errs
}
