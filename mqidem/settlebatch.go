package mqidem

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// handleBatch works on messages until all are settled, or left to the broker.
func (c *consumer) handleBatch(ds []*handed, h BatchHandler) {
	for len(ds) > 0 && c.receiving.Err() == nil {
		var rest []*handed
		var hold time.Duration
		for i, wait := range c.batchTurn(ds, h) {
			if wait > 0 {
				rest, hold = append(rest, ds[i]), max(hold, wait)
			}
		}
		if ds = rest; len(ds) > 0 {
			c.pause(hold)
		}
	}
	for _, d := range ds {
		c.tell(d, Left, errStopped)
	}
}

// batchTurn gives messages to the handler once, and returns what settle says of each.
func (c *consumer) batchTurn(ds []*handed, h BatchHandler) []time.Duration {
	errs := make([]error, len(ds))
	var ready []int
	var ms []*Message
	for i, d := range ds {
		if errs[i] = c.take(d); errs[i] == nil {
			ready, ms = append(ready, i), append(ms, d.message)
		}
	}
	if len(ms) > 0 {
		told, err := c.callBatch(ds, ms, h)
		for i, at := range ready {
			if errs[at] = err; err == nil && len(told) > 0 {
				errs[at] = told[i]
			}
		}
	}
	return c.settleAll(ds, errs)
}

// callBatch calls h. An error is one of all messages.
func (c *consumer) callBatch(ds []*handed, ms []*Message, h BatchHandler) (errs []error, err error) {
	err = c.guarded(ds, func() error {
		errs = h(c.working, ms)
		return nil
	})
	if err == nil && len(errs) != 0 && len(errs) != len(ms) {
		err = fmt.Errorf("mqidem: the handler returned %d errors for %d messages; return one for each, or nil", len(errs), len(ms))
	}
	return errs, err
}

// settleAll tells the broker of many messages, a few at a time.
func (c *consumer) settleAll(ds []*handed, errs []error) []time.Duration {
	holds := make([]time.Duration, len(ds))
	turns := make(chan struct{}, 16)
	var all sync.WaitGroup
	for i, d := range ds {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			holds[i] = c.settle(d, errs[i])
		})
	}
	all.Wait()
	return holds
}

// guarded calls a handler. One that ends its goroutine has failed.
func (c *consumer) guarded(ds []*handed, h func() error) error {
	returned := false
	defer func() {
		if !returned {
			for _, d := range ds {
				c.settle(d, errExited)
			}
		}
	}()
	err := call(h)
	returned = true
	return err
}

// broker calls f with a context for calls of the broker, which goes on when the handlers' has ended.
func (c *consumer) broker(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.working), settleTime)
	defer cancel()
	return f(ctx)
}
