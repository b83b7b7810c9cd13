package mqidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options configure [Consume] and [ConsumeBatch]. nil and every zero field are valid.
type Options struct {
	// MaxAttempts is how often the work of a message is tried before the message becomes a dead
	// letter. Default 5; negative means no limit. With a handler of this package the record counts
	// the tries: takeovers from dead consumers count, and deliveries that ran nothing do not. With
	// another handler the broker's count decides, if the broker has one.
	MaxAttempts int
	// Backoff returns how long a message waits after its try-th try, counted from 1. Default
	// [Exponential] from 1 s up to 5 min.
	Backoff func(try int) time.Duration
	// Concurrency is how many messages (or batches) are worked on concurrently. Default 16 (1 for
	// batches).
	Concurrency int
	// Order returns the name of a sequence. Messages of one name are handled one at a time, in the
	// order in which they arrived. If one fails, those after it wait until it is done or a dead
	// letter. An empty name means no order. The source must deliver in order, to one consumer at a
	// time, and must prefetch more messages than one name has in a row. nil means no order.
	// [ConsumeBatch] refuses it, since a batch runs messages that were tried before alone.
	Order func(*Message) string
	// Batch is the largest number of messages in a batch; default 100. Linger is how long a batch
	// that is not full waits for more; default 50 ms. A batch does not wait if the source can hand
	// out no more until it is acked (see [Limited]), and the source fetches the next batch
	// meanwhile (see [Batched]). So with the defaults a full queue is consumed about as fast as
	// with any other values; a longer Linger makes fewer and larger batches when few messages come.
	Batch  int
	Linger time.Duration
	// ID returns the id of a message; nil means [Message].ID, which the producer sets.
	ID IDFunc
	// MissingID returns an id for a message without one, for example [BodyDigest]. nil means that
	// such a message becomes a dead letter as [DeadNoID].
	MissingID IDFunc
	// MaxBody is the largest body in bytes that is handled. A larger message becomes a dead letter
	// as [DeadTooLarge]. Zero means no limit.
	MaxBody int
	// HoldsFor is how long the broker can deliver a copy of a message after the message was
	// published, if you know that and the source does not: a program trims the stream by age, or
	// the brokers have a policy. Zero means that the source says so (see [Holder]). Records must be
	// kept for at least that time (Policy.Retention); otherwise Consume returns an error and runs
	// nothing.
	HoldsFor time.Duration
	// DeadLetter stores dead letters instead of the source's dead-letter queue. If it returns nil,
	// the message is acked. nil means that the source's dead-letter queue is used.
	DeadLetter func(context.Context, *Message, Reason) error
	// Drain is how long running handlers may continue after Consume's context has ended; then their
	// contexts end. Default 30 s.
	Drain time.Duration
	// OnOutcome receives the outcome of each delivery, for metrics. Several goroutines call it
	// concurrently, and it should not block. The context has the values of that of Consume, and
	// does not end with it.
	OnOutcome func(context.Context, Outcome)
	// Logger gets what an operator should know; default slog.Default(). It never gets ids or
	// bodies. It gets one line for each cause and minute.
	Logger *slog.Logger
}

// The outcomes of a delivery, as [Outcome].What.
const (
	// OutcomeDone: the work was done, and the message acked.
	OutcomeDone = "done"
	// OutcomeDuplicate: the work was done, or the message became a dead letter, before; acked.
	OutcomeDuplicate = "duplicate"
	// OutcomeLater: nothing ran, since another consumer works on the message or the store did not
	// answer. It is redelivered, and no try is counted.
	OutcomeLater = "later"
	// OutcomeAgain: the try failed, and there will be another one.
	OutcomeAgain = "again"
	// OutcomeDead: the message became a dead letter.
	OutcomeDead = "dead"
	// OutcomeLost: the broker has dropped the message before it was settled; nothing is left of it.
	// See [Lost].
	OutcomeLost = "lost"
	// OutcomeLeft: the message was not settled, because its connection is gone, the broker did not
	// accept the settlement, or Consume has ended. It is redelivered.
	OutcomeLeft = "left"
)

// Outcome is the outcome of one delivery.
type Outcome struct {
	What string
	// Message must not be changed.
	Message *Message
	// Try is the number of this try; zero means that none was counted.
	Try int
	// Err is why the work was not done, or why the broker did not accept the ack.
	Err error
	// Took is the time from receipt to settlement.
	Took time.Duration
}

// withDefaults fills in defaults and returns an error for invalid values.
func (o *Options) withDefaults(batches bool) (Options, error) {
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
	}{{"MaxAttempts", &c.MaxAttempts, 5, -1 << 31}, {"Concurrency", &c.Concurrency, 16, 1}, {"Batch", &c.Batch, 100, 1}, {"MaxBody", &c.MaxBody, 0, 0}} {
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
	if c.HoldsFor < 0 {
		return c, fmt.Errorf("mqidem: HoldsFor is %v; use a positive time, or leave it zero for what the source says", c.HoldsFor)
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
