package mqidem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Consume takes messages from a source and gives them to h until ctx ends, and returns nil then.
//
//	what h returns                          what becomes of the message
//	nil                                     acked
//	in progress elsewhere                   comes again later; no try is counted
//	the store does not answer               held, and handed over again when it may; no try is counted
//	an error, a panic                       comes again after Backoff, up to MaxDeliveries tries; then it is parked
//	retrysafe.Permanent, Poison             parked at once
//	in doubt under retrysafe.Refuse         parked as in doubt
//
// Stopping: no more messages are taken, and what runs may go on for Drain. Then its contexts end;
// work that has not returned a second later is left behind: its message was not settled, its key
// stays taken until the lease lapses, and Consume returns an error that says how many there are.
// The source is not closed.
//
// Errors: what is wrong with o; a source that was closed or has failed for good; records that are
// kept for less time than the broker keeps copies (see [Holder]).
func Consume(ctx context.Context, s Source, h Handler, o *Options) error {
	opts, err := o.checked(false)
	if err != nil {
		return err
	}
	c := newConsumer(ctx, s, opts)
	if opts.Order == nil {
		return c.run(ctx, opts.Concurrency, 1, func(ds []*handed) func() { return func() { c.handle(ds[0], h) } })
	}
	// Messages that wait for others of their name have no turn, so that more of them are in hand.
	c.turns = make(turns, opts.Concurrency)
	lanes := lanes{last: map[string]chan struct{}{}}
	return c.run(ctx, inHand*opts.Concurrency, 1, func(ds []*handed) func() {
		d := ds[0]
		_ = call(func() error { // one that panics names nothing
			d.lane = opts.Order(d.Message())
			return nil
		})
		return lanes.behind(d.lane, func() {
			c.turns.take()
			defer c.turns.leave()
			c.handle(d, h)
		})
	})
}

// inHand is how many messages are in hand for each that is worked on, where their order counts.
const inHand = 16

// ConsumeBatch is [Consume] for handlers of batches: up to Batch messages that were there within
// Linger.
func ConsumeBatch(ctx context.Context, s Source, h BatchHandler, o *Options) error {
	opts, err := o.checked(true)
	if err != nil {
		return err
	}
	c := newConsumer(ctx, s, opts)
	return c.run(ctx, opts.Concurrency, opts.Batch, func(ds []*handed) func() { return func() { c.handleBatch(ds, h) } })
}

// errStopped ends the contexts of handlers that have not ended by themselves.
var errStopped = errors.New("mqidem: the consumer was stopped")

// grace is how long handlers have once their contexts have ended.
const grace = time.Second

// consumer is one call of Consume.
type consumer struct {
	Options
	source Source
	holds  time.Duration
	turns  turns
	shelf  shelf

	receiving context.Context // ends with the caller's, and with a fatal error
	stop      context.CancelCauseFunc
	working   context.Context // of handlers
	cut       context.CancelCauseFunc
	gaveUp    context.Context
	giveUp    context.CancelFunc

	all sync.WaitGroup

	mu      sync.Mutex // guards what follows
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

// run receives until it is told to end, up to most deliveries at a time, and has so many times that
// in hand. plan says, in the order of their coming, what is to be done with them on a goroutine of
// its own.
func (c *consumer) run(ctx context.Context, hands, most int, plan func([]*handed) func()) error {
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

// receive takes one message, and those that come within Linger where a batch is wanted.
func (c *consumer) receive(most int) ([]*handed, error) {
	d, err := c.source.Receive(c.receiving)
	if err != nil {
		return nil, err
	}
	ds := []*handed{c.handed(d)}
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
		ds = append(ds, c.handed(d))
	}
	return ds, nil
}

// work runs what is planned for n messages.
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

// drain waits for what runs.
func (c *consumer) drain() error {
	idle := make(chan struct{})
	go func() { // it ends when the last handler does
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
	return errors.Join(c.fatal, fmt.Errorf("mqidem: %d messages were still being worked on %v behind the end: they come again, and their keys stay taken until the leases lapse: %w",
		c.running, c.Drain+grace, errStopped))
}
