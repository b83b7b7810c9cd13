package mqidem

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Settlement is the state of one delivery, for implementations of [Delivery]. It makes sure that a
// delivery is settled once, that a copy is written once, and that a copy is written before the
// broker gets its answer. Its methods may be called concurrently; calls wait for each other.
//
//	open      Settle with success   settled: later calls return ErrSettled
//	open      Check fails           open: the error of Check
//	open      Write fails           open: given back after a time, unless Settle is called again
//	open      Answer fails          open: another call does not write again
//	open      the time has passed   returned: later calls return ErrStale
type Settlement struct {
	settling chan struct{} // holds a value while a call settles; guards the fields below
	settled  bool
	written  bool
	returned bool

	giveBackTimer *time.Timer
	patience      time.Duration
	giveBack      func()
}

// NewSettlement returns the state of an open delivery. If Write has failed and Settle is not called
// again within patience, the delivery counts as returned and giveBack is called, which returns the
// message to the broker. A nil giveBack means that the message stays with the consumer.
func NewSettlement(patience time.Duration, giveBack func()) *Settlement {
	return &Settlement{settling: make(chan struct{}, 1), patience: patience, giveBack: giveBack}
}

// SettleSteps are the steps of Ack, Retry or Dead. Only Answer is required. Each gets the context
// of Settle.
type SettleSteps struct {
	// Check returns an error if the delivery cannot be settled; it wraps [ErrStale] if its
	// connection is gone. Nothing was sent then.
	Check func(context.Context) error
	// Write writes a copy of the message, such as its dead letter, and returns when the broker has
	// confirmed it. After a success it is not called again.
	Write func(context.Context) error
	// Answer acks the message, or returns it to the broker.
	Answer func(context.Context) error
}

var errNotSent = errors.New("mqidem: nothing was sent to the broker; the message stays with this consumer")

// Settle makes the steps in order, and stops at the first error, which it returns as it is. Other
// errors are [ErrSettled], [ErrStale], and that of ctx if it has ended before the first step.
func (s *Settlement) Settle(ctx context.Context, steps SettleSteps) error {
	if !s.lockTurn(ctx) {
		return fmt.Errorf("%w: %w", errNotSent, ctx.Err())
	}
	defer func() { <-s.settling }()
	switch {
	case s.settled:
		return ErrSettled
	case s.returned:
		return ErrStale
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errNotSent, ctx.Err())
	}
	if steps.Check != nil {
		if err := steps.Check(ctx); err != nil {
			return err
		}
	}
	if s.giveBackTimer != nil {
		s.giveBackTimer.Stop()
	}
	if steps.Write != nil && !s.written {
		if err := steps.Write(ctx); err != nil {
			s.startGiveBack()
			return err
		}
		s.written = true
	}
	if err := steps.Answer(ctx); err != nil {
		return err
	}
	s.settled = true
	return nil
}

// lockTurn waits for the turn. It reports false if ctx ends first.
func (s *Settlement) lockTurn(ctx context.Context) bool {
	select {
	case s.settling <- struct{}{}:
		return true
	default: // ctx may make its channel only now
	}
	select {
	case s.settling <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// startGiveBack starts the time after which the delivery counts as returned. The turn is held.
func (s *Settlement) startGiveBack() {
	if s.giveBack != nil {
		s.giveBackTimer = time.AfterFunc(s.patience, s.giveBackNow)
	}
}

func (s *Settlement) giveBackNow() {
	s.settling <- struct{}{}
	defer func() { <-s.settling }()
	if s.settled || s.returned {
		return
	}
	s.returned = true
	s.giveBack()
}
