package mqidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options change [Consume] and [ConsumeBatch]; nil and every zero field are fine.
type Options struct {
	// MaxDeliveries is how often the work of a message is tried before the message is parked;
	// default 5, negative: no limit. With a handler of this package the record counts, takeovers of
	// consumers that died included, and deliveries that ran nothing are not counted; with another
	// one the broker's count goes, as far as it has one.
	MaxDeliveries int
	// Backoff is how long a message waits behind its try-th try, from 1; default [Exponential] of 1
	// s up to 5 min.
	Backoff func(try int) time.Duration
	// Concurrency is how many messages (or batches) are worked on at once; default 16 (of batches
	// 1).
	Concurrency int
	// Order keeps messages of one name in the order in which they came: one at a time, and those
	// behind a message that failed wait until it is done or parked. An empty name is in no order.
	// The source must deliver in order, to one consumer at a time, and more of them ahead than one
	// name has in a row. Nil: no order. [ConsumeBatch] refuses it: in a batch those that were tried
	// before go by themselves.
	Order func(*Message) string
	// Batch is how many messages a batch has at most; default 100. Linger is how long one that is
	// not full waits for more; default 50 ms.
	Batch  int
	Linger time.Duration
	// ID finds the id of a message; nil: [Message].ID, which the producer has set.
	ID IDFunc
	// MissingID makes an id for a message without one, for example [BodyDigest]; nil: such a
	// message is parked as [DeadNoID].
	MissingID IDFunc
	// MaxBody is the largest body in bytes that is handled; a larger one is parked as
	// [DeadTooLarge]. Zero: any.
	MaxBody int
	// DeadLetter keeps dead messages, in place of the source's parking queue: where it returns nil
	// the message is acked. Nil: the source parks.
	DeadLetter func(context.Context, *Message, Reason) error
	// Drain is how long what runs may go on once Consume was told to end; then its contexts end.
	// Default 30 s.
	Drain time.Duration
	// Observe is told what became of each delivery, for metrics. It is called by several goroutines
	// and should not block.
	Observe func(Outcome)
	// Logger gets what people should know; default slog.Default(). It is shown no ids and no
	// bodies.
	Logger *slog.Logger
}

// What became of a delivery, as [Outcome].What.
const (
	// Done: the work was done, and the message acked.
	Done = "done"
	// Repeat: it had been done, or parked, before; acked.
	Repeat = "repeat"
	// Later: nothing was run, since another consumer works on it or the store did not answer; it
	// comes again, and no try is counted.
	Later = "later"
	// Again: the try failed, and there will be another one.
	Again = "again"
	// Dead: it was parked.
	Dead = "dead"
	// Left: it was not settled, for its connection is gone, the broker did not take what was said
	// of it, or Consume has ended; it comes again.
	Left = "left"
)

// Outcome is what became of one delivery.
type Outcome struct {
	What string
	// Message must not be changed.
	Message *Message
	// Try is which one this was; zero where none was counted.
	Try int
	// Err is why it was not done, or why the broker did not take the ack.
	Err error
	// Took is the time from its receipt to its settlement.
	Took time.Duration
}

// checked fills in what is zero, and says what makes no sense.
func (o *Options) checked(batches bool) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Concurrency == 0 {
		if c.Concurrency = 16; batches {
			c.Concurrency = 1
		}
	}
	for _, n := range []struct {
		name         string
		value        *int
		usual, least int
	}{{"MaxDeliveries", &c.MaxDeliveries, 5, -1 << 31}, {"Concurrency", &c.Concurrency, 16, 1}, {"Batch", &c.Batch, 100, 1}, {"MaxBody", &c.MaxBody, 0, 0}} {
		if *n.value == 0 {
			*n.value = n.usual
		}
		if *n.value < n.least {
			return c, fmt.Errorf("mqidem: %s is %d; use %d or more, or leave it zero", n.name, *n.value, n.least)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{{"Linger", &c.Linger, 50 * time.Millisecond}, {"Drain", &c.Drain, 30 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.usual
		}
		if *d.value < 0 {
			return c, fmt.Errorf("mqidem: %s is %v; use a positive time, or leave it zero for %v", d.name, *d.value, d.usual)
		}
	}
	if batches && c.Order != nil {
		return c, errors.New("mqidem: Order is for Consume; in a batch messages that were tried before go by themselves")
	}
	if c.Backoff == nil {
		c.Backoff = Exponential(time.Second, 5*time.Minute)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}
