package mqidem

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// workers are the goroutines of a consumer. Each receives messages and works on them, until the
// consumer ends. A worker is started when all others are busy, so an idle consumer has one.
type workers struct {
	running   sync.WaitGroup
	startable atomic.Int64 // how many may still be started
	idle      atomic.Int64 // those that receive
	busy      atomic.Int64 // messages that are worked on
}

// run works until the consumer ends, with at most most workers. next receives messages, and returns
// their number and what to do with them; no messages means that the consumer has ended.
func (c *consumer) run(ctx context.Context, most int, next func() (n int, work func())) error {
	defer c.pool.close()
	defer c.abandon()
	defer c.cutHandlers(errStopped)
	defer c.stop(errStopped)
	if err := c.findBrokerHolds(ctx); err != nil {
		return err
	}
	c.workers.startable.Store(int64(most))
	c.workers.startWorker(func() { c.runWorker(next) })
	<-c.receiveCtx.Done()
	return c.drain()
}

// startWorker starts a worker, unless there are enough.
func (w *workers) startWorker(work func()) {
	if w.startable.Add(-1) < 0 {
		w.startable.Add(1)
		return
	}
	w.idle.Add(1)
	w.running.Go(work)
}

// runWorker is one worker, which counts as idle.
func (c *consumer) runWorker(next func() (int, func())) {
	w := &c.workers
	for {
		n, do := next()
		w.busy.Add(int64(n))
		last := w.idle.Add(-1) == 0
		if n == 0 {
			return
		}
		if last {
			w.startWorker(func() { c.runWorker(next) })
		}
		do()
		w.busy.Add(int64(-n))
		w.idle.Add(1)
	}
}

// oneAtATime returns next for one worker at a time, so that messages are received in the order in
// which they arrive, and batches fill one after the other.
func (c *consumer) oneAtATime(next func() (int, func())) func() (int, func()) {
	turn := make(chan struct{}, 1)
	return func() (int, func()) {
		turn <- struct{}{}
		defer func() { <-turn }()
		return next()
	}
}

// receive waits for a message. It returns nil if the consumer has ended.
func (c *consumer) receive() *inFlight {
	d, err := c.nextMessage(c.receiveCtx)
	if err != nil {
		c.endWithSourceError(err)
	}
	return d
}

// nextMessage waits for a message that is not lost.
func (c *consumer) nextMessage(ctx context.Context) (*inFlight, error) {
	for {
		d, err := c.source.Receive(ctx)
		if err != nil {
			return nil, err
		}
		if f := c.trackDelivery(d); f != nil {
			return f, nil
		}
	}
}

// receiveBatch waits for a message, and then for more that arrive within Linger. It returns none if
// the consumer has ended.
func (c *consumer) receiveBatch() []*inFlight {
	first := c.receive()
	if first == nil {
		return nil
	}
	ds := []*inFlight{first}
	limited, _ := c.source.(Limited)
	ctx, cancel := context.WithTimeout(c.receiveCtx, c.Linger)
	defer cancel()
	for len(ds) < c.Batch {
		if limited != nil && limited.Full() {
			return ds
		}
		d, err := c.nextMessage(ctx)
		if err != nil {
			if ctx.Err() == nil { // otherwise Linger has passed, or the consumer has ended
				c.endWithSourceError(err)
			}
			return ds
		}
		ds = append(ds, d)
	}
	return ds
}

// endWithSourceError ends the consumer, whose source has failed for good.
func (c *consumer) endWithSourceError(err error) {
	if c.receiveCtx.Err() == nil {
		c.endWithError(fmt.Errorf("mqidem: no more messages can be received: %w", err))
	}
}
