package mqidem

import (
	"context"
	"errors"
	"time"
)

// Source delivers the messages of one queue to one consumer. mqtest.Run tests implementations.
type Source interface {
	// Receive waits for a message. When ctx ends it returns ctx's error, and no message is lost.
	// After the source is closed it returns an error that wraps [ErrSourceClosed]. Any other error
	// is final too. A lost connection is not an error: the source connects again and waits. Several
	// goroutines call Receive concurrently.
	Receive(ctx context.Context) (Delivery, error)
}

// Delivery is one message that a consumer holds. Ack, Retry or Dead settles it once. A second call
// returns [ErrSettled] and changes nothing. If any of the three returns an error, the broker still
// has the message as delivered and unsettled, and redelivers it when the source is closed or
// earlier. A delivery that is never settled is redelivered too.
//
// If a broker takes a silent consumer for dead after some time, the source keeps the delivery alive
// until it is settled.
type Delivery interface {
	// Message returns the same message at each call.
	Message() *Message
	// Ack reports the message as done. An error that wraps [ErrStale] means that the delivery's
	// connection is gone and the broker will redeliver the message. An ack must never reach another
	// message.
	Ack(ctx context.Context) error
	// Retry asks for a redelivery when at least after has passed. A source may round up, and where
	// the order of a partition counts, the partition waits. If a source needs a copy for this, the
	// broker confirms the copy before this delivery is acked. Retry may wait for the broker, but
	// never for after.
	Retry(ctx context.Context, after time.Duration) error
	// Dead publishes the message with the reason to the dead-letter queue, waits for the broker's
	// confirmation, and then acks this delivery.
	Dead(ctx context.Context, why Reason) error
}

// Limited is a Source that hands out a limited number of unsettled deliveries: a prefetch limit, or
// one message of a partition at a time.
type Limited interface {
	// Full reports whether Receive returns nothing more until a delivery is settled. [ConsumeBatch]
	// then does not wait for a larger batch.
	Full() bool
}

// Batched is a Source that fetches messages ahead of Receive, and can fetch more of them.
type Batched interface {
	// Ahead makes the source fetch at least n messages ahead, or as many as it can. [ConsumeBatch]
	// calls it at the beginning with the size of a batch, so that the next batch is there when one
	// is done.
	Ahead(n int)
}

// Holder is a Source that knows how long its broker can deliver a copy of a message after the
// message was published. A log such as a topic or a stream keeps messages that are done: if it
// loses the place of its consumers, they get all that it still has.
type Holder interface {
	// HoldsFor returns that time: retrysafe.Forever if messages that are done stay without a limit.
	// It returns zero if the broker removes what is settled and has no limit for the rest, or does
	// not report it.
	HoldsFor(ctx context.Context) (time.Duration, error)
}

// Lost is a Delivery that reports a message as lost: the broker had delivered it to a consumer, and
// has dropped it before it was settled, for example because the queue has a maximum length.
// [Consume] reports it as [OutcomeLost] and calls no handler. Its Message has the Source, and
// Published if that is known. Ack, Retry and Dead do nothing and return nil. A type that wraps
// deliveries must return a Lost as it is.
type Lost interface {
	Delivery
	// Lost returns why the message is lost, in words for an operator.
	Lost() error
}

// The errors of sources.
var (
	// ErrSourceClosed means that the source was closed.
	ErrSourceClosed = errors.New("mqidem: the source is closed")
	// ErrSettled means that the delivery was settled before.
	ErrSettled = errors.New("mqidem: this delivery was settled before")
	// ErrStale means that the delivery's connection is gone. The broker redelivers the message.
	ErrStale = errors.New("mqidem: the connection of this delivery is gone; the message will be redelivered")
)
