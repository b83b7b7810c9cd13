package mqidem

import (
	"context"
	"errors"
	"time"
)

// Source delivers the messages of one queue to one consumer. mqtest.Run checks it.
type Source interface {
	// Receive waits for a message. It returns ctx's error when ctx ends, without losing one, and an
	// error that wraps [ErrSourceClosed] once the source is closed. Any other error is final too: a
	// cut connection is no error, the source connects again and waits. It is called by several
	// goroutines at once.
	Receive(ctx context.Context) (Delivery, error)
}

// Delivery is one message in the hands of a consumer. It is settled once, by Ack, Retry or Dead; a
// second one is [ErrSettled] and changes nothing. An error of any of the three leaves the message
// with the broker, as delivered and not settled: it comes again, at the latest when the source is
// closed. A delivery that is never settled comes again too.
//
// A broker that takes a consumer for dead after some time is told by the source that this one
// lives, until the delivery is settled.
type Delivery interface {
	// Message is the same one at each call.
	Message() *Message
	// Ack says that the message is done. An error that wraps [ErrStale]: the connection on which it
	// came is gone, and the broker will deliver the message again; an ack must never reach another
	// message.
	Ack(ctx context.Context) error
	// Retry asks for the message again, not before after has passed (a source may round up, and
	// where the order of a partition counts the partition waits). Where that needs a copy, the copy
	// is confirmed before this one is acked. It may wait for the broker, and never for after.
	Retry(ctx context.Context, after time.Duration) error
	// Dead parks the message with the reason, confirmed, and acks it here.
	Dead(ctx context.Context, why Reason) error
}

// Limited is a Source that hands out only so much before some of that is settled: a prefetch limit,
// or one message of a partition at a time.
type Limited interface {
	// Full tells that Receive brings nothing more until a delivery in somebody's hands is settled.
	// [ConsumeBatch] waits for no larger batch then.
	Full() bool
}

// Holder is a Source that knows how long a copy of a message may lie in its queue before the broker
// drops it.
type Holder interface {
	// HoldsFor is that time; zero where there is no limit, or the broker does not tell.
	HoldsFor(ctx context.Context) (time.Duration, error)
}

// Parking is where messages are that used up their tries. mqtest.Run checks it.
type Parking interface {
	// Walk shows the messages that were parked when it began, the oldest first, each once. Several
	// may have one id, where a consumer died between parking a message and its ack. see says what
	// becomes of each, and returns before the next one is shown. What it removes may go only when
	// the walk ends: if the process dies before, the next walk shows it again. An error of see ends
	// the walk, keeps the message, and is returned. What was parked and could not be read is shown
	// with the Reason "unreadable".
	//
	// Two walks at once may hide messages from each other where the broker has no other way to look
	// than to take.
	Walk(ctx context.Context, see func(context.Context, *Parked) (Verdict, error)) error
	// Send publishes a message where it came from (its Source), with its id and headers, and
	// returns when the broker has confirmed it. A broker that drops repeats of an id by itself is
	// made to take it all the same.
	Send(ctx context.Context, m *Message) error
}

// Parked is a message in a parking queue. Message has the headers that it came with, without
// [HeaderDead].
type Parked struct {
	Message *Message
	Reason  Reason
}

// Verdict is what becomes of a parked message.
type Verdict uint8

// The verdicts.
const (
	// Keep leaves it where it is.
	Keep Verdict = iota
	// Remove takes it away.
	Remove
)

// The errors of sources.
var (
	// ErrSourceClosed: the source was closed.
	ErrSourceClosed = errors.New("mqidem: the source is closed")
	// ErrSettled: the delivery was settled before.
	ErrSettled = errors.New("mqidem: this delivery was settled before")
	// ErrStale: the delivery came by a connection that is gone; the broker delivers the message
	// again.
	ErrStale = errors.New("mqidem: the connection of this delivery is gone; the message comes again")
)
