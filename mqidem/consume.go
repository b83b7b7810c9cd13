package mqidem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Consume receives messages from a source and calls h for each until ctx ends; then it returns nil.
//
//	what h returns                          what happens to the message
//	nil                                     acked
//	in progress elsewhere                   redelivered later; no try is counted
//	the store does not answer               held, and handled again later; no try is counted
//	an error, a panic                       redelivered after Backoff, up to MaxDeliveries tries; then a dead letter
//	retrysafe.Permanent, Poison             a dead letter at once
//	in doubt under retrysafe.Refuse         a dead letter, in doubt
//
// When ctx ends, Consume receives nothing more, and running handlers may continue for Drain. Then
// their contexts end. A handler that has not returned a second later is abandoned: its message
// stays unsettled, its key stays claimed until the lease expires, and Consume returns an error with
// the number of such messages. Consume does not close the source.
//
// Consume also returns an error if o is invalid, if the source was closed or has failed for good,
// or if records are kept for less time than the broker keeps copies (see [Holder]).
func Consume(ctx context.Context, s Source, h Handler, o *Options) error {
	opts, err := o.checked(false)
	if err != nil {
		return err
	}
	c := newConsumer(ctx, s, opts)
	if opts.Order == nil {
		return c.run(ctx, opts.Concurrency, 1, func(ds []*inFlight) func() { return func() { c.handle(ds[0], h) } })
	}
	// Messages that wait for others of their name do not count as concurrent, so more are received.
	c.turns = make(turns, opts.Concurrency)
	lanes := lanes{last: map[string]chan struct{}{}}
	return c.run(ctx, inHand*opts.Concurrency, 1, func(ds []*inFlight) func() {
		d := ds[0]
		_ = call(func() error { // if Order panics, the message has no name
			d.lane = opts.Order(d.message)
			return nil
		})
		return lanes.after(d.lane, func() {
			c.turns.take()
			defer c.turns.leave()
			c.handle(d, h)
		})
	})
}

// inHand is how many messages are received for each one that is worked on, if Order is set.
const inHand = 16

// ConsumeBatch is [Consume] for batch handlers. A batch has up to Batch messages that arrived
// within Linger.
func ConsumeBatch(ctx context.Context, s Source, h BatchHandler, o *Options) error {
	opts, err := o.checked(true)
	if err != nil {
		return err
	}
	c := newConsumer(ctx, s, opts)
	return c.run(ctx, opts.Concurrency, opts.Batch, func(ds []*inFlight) func() { return func() { c.handleBatch(ds, h) } })
}

// errStopped ends the contexts of handlers that are still running after Drain.
var errStopped = errors.New("mqidem: the consumer was stopped")

// grace is how long handlers may run after their contexts have ended.
const grace = time.Second

// consumer is one call of Consume.
type consumer struct {
	Options
	source   Source
	holds    time.Duration
	turns    turns
	returned returnedMessages

	receiving context.Context // ends with the caller's, and with a fatal error
	stop      context.CancelCauseFunc
	working   context.Context // of handlers
	cut       context.CancelCauseFunc
	gaveUp    context.Context
	giveUp    context.CancelFunc

	all sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running int
	fatal   error
}

func newConsumer(ctx context.Context, s Source, o Options) *consumer {
	c := &consumer{Options: o, source: s}
	c.receiving, c.stop = context.WithCancelCause(ctx)
	c.working, c.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	c.gaveUp, c.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

func (c *consumer) start(ctx context.Context) error {
	holder, ok := c.source.(Holder)
	if !ok {
		return nil
	}
	var err error
	if c.holds, err = holder.HoldsFor(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("mqidem: the broker was asked how long it keeps messages: %w", err)
	}
	return nil
}

// fail ends the consumer with an error.
func (c *consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.stop(err)
}

// run receives until the consumer ends. It receives up to most deliveries at a time, and holds at
// most hands such groups. It calls plan with each group, in order of arrival, and runs the returned
// function on its own goroutine.
func (c *consumer) run(ctx context.Context, hands, most int, plan func([]*inFlight) func()) error {
	defer c.giveUp()
	defer c.cut(errStopped)
	defer c.stop(errStopped)
	if err := c.start(ctx); err != nil {
		return err
	}
	turns := make(chan struct{}, hands)
	for c.turn(turns) {
		ds, err := c.receive(most)
		if len(ds) > 0 {
			c.work(len(ds), turns, plan(ds))
		} else {
			<-turns
		}
		if err != nil {
			if c.receiving.Err() == nil {
				c.fail(fmt.Errorf("mqidem: no more messages can be received: %w", err))
			}
			break
		}
	}
	return c.drain()
}

func (c *consumer) turn(turns chan struct{}) bool {
	select {
	case <-c.receiving.Done():
		return false
	case turns <- struct{}{}:
		return true
	}
}

// receive returns one message, or for a batch also those that arrive within Linger.
func (c *consumer) receive(most int) ([]*inFlight, error) {
	d, err := c.source.Receive(c.receiving)
	if err != nil {
		return nil, err
	}
	ds := []*inFlight{c.take(d)}
	if most == 1 {
		return ds, nil
	}
	limited, _ := c.source.(Limited)
	ctx, cancel := context.WithTimeout(c.receiving, c.Linger)
	defer cancel()
	for len(ds) < most {
		if limited != nil && limited.Full() {
			return ds, nil
		}
		d, err := c.source.Receive(ctx)
		if err != nil && ctx.Err() != nil && c.receiving.Err() == nil {
			return ds, nil // Linger has passed
		}
		if err != nil {
			return ds, err
		}
		ds = append(ds, c.take(d))
	}
	return ds, nil
}

// work runs planned, which handles n messages.
func (c *consumer) work(n int, turns <-chan struct{}, planned func()) {
	c.count(n)
	c.all.Go(func() {
		defer func() {
			c.count(-n)
			<-turns
		}()
		planned()
	})
}

func (c *consumer) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += n
}

// drain waits for the running handlers.
func (c *consumer) drain() error {
	idle := make(chan struct{})
	go func() { // ends when the last handler does
		c.all.Wait()
		close(idle)
	}()
	for _, step := range []struct {
		wait time.Duration
		then func()
	}{{c.Drain, func() { c.cut(errStopped) }}, {grace, c.giveUp}} {
		t := time.NewTimer(step.wait)
		select {
		case <-idle:
			t.Stop()
			return c.fatal
		case <-t.C:
			step.then()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.fatal, fmt.Errorf("mqidem: %d messages were still being worked on %v after the end: they are delivered again, and their keys stay claimed until the leases expire: %w",
		c.running, c.Drain+grace, errStopped))
}
