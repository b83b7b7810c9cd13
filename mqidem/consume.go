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
//	an error, a panic                       redelivered after Backoff, up to MaxAttempts tries; then a dead letter
//	retrysafe.Permanent, Poison             a dead letter at once
//	in doubt under retrysafe.Refuse         a dead letter, in doubt
//
// When ctx ends, Consume receives nothing more, and running handlers may continue for Drain. Then
// their contexts end. A handler that has not returned a second later is abandoned: its message
// stays unsettled, its key stays claimed until the lease expires, and Consume returns an error with
// the number of such messages. Consume does not close the source.
//
// Consume also returns an error if o is invalid, if the source was closed or has failed for good,
// or if records are kept for less time than the broker keeps copies (see [Holder] and
// [Options].HoldsFor).
func Consume(ctx context.Context, s Source, h Handler, o *Options) error {
	opts, err := o.withDefaults(false)
	if err != nil {
		return err
	}
	c := newConsumer(ctx, s, opts)
	if opts.Order == nil {
		return c.run(ctx, opts.Concurrency, func() (int, func()) {
			d := c.receive()
			return messageCount(d), func() { c.handle(d, h) }
		})
	}
	// Messages that wait for others of their name do not count as concurrent, so more are received.
	c.slots = make(handlerSlots, opts.Concurrency)
	lanes := orderLanes{last: map[string]chan struct{}{}}
	return c.run(ctx, receivedPerHandler*opts.Concurrency, c.oneAtATime(func() (int, func()) {
		d := c.receive()
		if d == nil {
			return 0, nil
		}
		_ = c.pool.callGuarded(func() error { // if Order panics, the message has no name
			d.lane = opts.Order(d.message)
			return nil
		})
		return 1, lanes.runAfterEarlier(d.lane, func() {
			c.slots.acquire()
			defer c.slots.release()
			c.handle(d, h)
		})
	}))
}

// messageCount returns how many messages there are.
func messageCount(d *inFlight) int {
	if d == nil {
		return 0
	}
	return 1
}

// receivedPerHandler is how many messages are received for each one that is worked on, if Order is
// set.
const receivedPerHandler = 16

// ConsumeBatch is [Consume] for batch handlers. A batch has up to Batch messages that arrived
// within Linger. The defaults are right for most queues; see [Options].Batch.
func ConsumeBatch(ctx context.Context, s Source, h BatchHandler, o *Options) error {
	opts, err := o.withDefaults(true)
	if err != nil {
		return err
	}
	c := newConsumer(ctx, s, opts)
	if ahead, ok := s.(Batched); ok {
		ahead.Ahead(opts.Batch)
	}
	return c.run(ctx, opts.Concurrency, c.oneAtATime(func() (int, func()) {
		ds := c.receiveBatch()
		return len(ds), func() { c.handleBatch(ds, h) }
	}))
}

// errStopped ends the contexts of handlers that are still running after Drain.
var errStopped = errors.New("mqidem: the consumer was stopped")

// handlerGrace is how long handlers may run after their contexts have ended.
const handlerGrace = time.Second

// consumer is one call of Consume.
type consumer struct {
	Options
	source      Source
	brokerHolds time.Duration
	slots       handlerSlots
	returned    returnedHistory
	pool        handlerPool

	receiveCtx  context.Context // ends with the caller's, and with a fatal error
	stop        context.CancelCauseFunc
	handlerCtx  context.Context // of handlers
	cutHandlers context.CancelCauseFunc
	abandoned   context.Context
	abandon     context.CancelFunc

	workers    workers
	limitedLog limitedLog

	mu    sync.Mutex // guards the field below
	fatal error
}

func newConsumer(ctx context.Context, s Source, o Options) *consumer {
	c := &consumer{Options: o, source: s}
	c.receiveCtx, c.stop = context.WithCancelCause(ctx)
	c.handlerCtx, c.cutHandlers = context.WithCancelCause(context.WithoutCancel(ctx))
	c.abandoned, c.abandon = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

func (c *consumer) findBrokerHolds(ctx context.Context) error {
	if c.brokerHolds = c.HoldsFor; c.brokerHolds > 0 {
		return nil
	}
	holder, ok := c.source.(Holder)
	if !ok {
		return nil
	}
	var err error
	if c.brokerHolds, err = holder.HoldsFor(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("mqidem: cannot ask the broker how long it keeps messages; set Options.HoldsFor if you know it: %w", err)
	}
	return nil
}

// endWithError ends the consumer with an error.
func (c *consumer) endWithError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.stop(err)
}

// drain waits for the running handlers.
func (c *consumer) drain() error {
	idle := make(chan struct{})
	go func() { // ends when the last handler does
		c.workers.running.Wait()
		close(idle)
	}()
	for _, step := range []struct {
		wait time.Duration
		then func()
	}{{c.Drain, func() { c.cutHandlers(errStopped) }}, {handlerGrace, c.abandon}} {
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
	return errors.Join(c.fatal, fmt.Errorf("mqidem: %d handlers were still running %v after the consumer was stopped; their messages are redelivered, and their keys stay claimed until the leases expire: %w",
		c.workers.busy.Load(), c.Drain+handlerGrace, errStopped))
}
