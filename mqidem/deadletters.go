package mqidem

import "context"

// DeadLetters is a dead-letter queue. mqtest.Run tests implementations.
type DeadLetters interface {
	// Walk calls see for the messages that were in the dead-letter queue when it began, the oldest
	// first, each once. Several may have one id, if a consumer died between writing a dead letter
	// and its ack. see returns whether to keep or remove the message, and returns before the next
	// call. A source may delay removals until the walk ends: if the process dies before, the next
	// walk shows the messages again. If see returns an error, the walk keeps that message, ends and
	// returns the error. An unreadable entry is shown with the Reason "unreadable".
	//
	// If the broker can only look at messages by receiving them, two concurrent walks may hide
	// messages from each other.
	Walk(ctx context.Context, see func(context.Context, *DeadLetter) (Verdict, error)) error
	// Send publishes a message to its Source, with its id and headers, and returns when the broker
	// has confirmed it. If the broker drops duplicates of an id, Send makes it accept the message
	// all the same.
	Send(ctx context.Context, m *Message) error
}

// DeadLetter is a message in a dead-letter queue. Message has its original headers, without
// [HeaderDead].
type DeadLetter struct {
	Message *Message
	Reason  Reason
}

// Verdict says whether a dead letter is kept or removed.
type Verdict uint8

// The verdicts.
const (
	// Keep leaves the message in the dead-letter queue.
	Keep Verdict = iota
	// Remove removes it.
	Remove
)
