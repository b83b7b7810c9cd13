package outbox

import (
	"context"
	"errors"
)

// Publisher hands messages to a broker. It is called by several goroutines at once, each with
// messages of a partition of its own.
type Publisher interface {
	// Publish returns one error for each message, in the same order. nil: the broker has confirmed
	// the message, and it is never given again. Any error: it may have been published all the same,
	// and is given again with the same ID, later.
	//
	//   - An error that wraps a [Permanent] one is final: the message is dead at once.
	//   - One of [Unavailable] says that the broker cannot be reached: it is not counted against
	//     the message, and its partition waits.
	//   - Any other one is counted against the message, which holds up its key meanwhile.
	//
	// When ctx ends Publish returns without delay: another relay may have the messages by then. A
	// panic, and another number of errors than of messages, is an error for each.
	//
	// No two messages of a batch have the same key, unless the publisher is an [Ordered] one. A
	// publisher must not change what it is given, and not keep it.
	Publish(ctx context.Context, batch []Outgoing) []error
}

// Ordered is a Publisher that keeps the order of a key within a batch: where a message is not
// confirmed, no later one with the same key reaches the broker after it by the same call. It is
// given several messages of one key at once, which is faster where few keys have many messages.
// Return an error, [ErrHeldUp] say, for those that were held back: it is not counted against them.
//
// A broker's client that sends all and then waits for confirmations is none: the second message may
// be taken and the first refused.
type Ordered interface {
	Publisher
	// KeepsOrder says whether the promise above holds, as the publisher is set up.
	KeepsOrder() bool
}

// ErrHeldUp is for messages that were not sent, since one of the same key before them was not
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

// Permanent says that to publish the message again would fail again: it is too large, or its topic
// is refused.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

// Unavailable says that the broker cannot be reached or takes nothing at present, whatever the
// message.
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

// OneByOne is a Publisher that publishes one message after the other, each by send; it is an
// [Ordered] one. send is called by several goroutines at once.
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
