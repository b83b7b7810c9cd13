package mqidem

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/internal/parallel"
)

// handleBatch works on messages until all are settled or left to the broker.
func (c *consumer) handleBatch(ds []*handed, h BatchHandler) {
	for len(ds) > 0 && c.receiving.Err() == nil {
		ds = c.held(ds, c.batchTurn(ds, h))
	}
	for _, d := range ds {
		c.tell(d, Left, errStopped)
	}
}

// held settles messages and waits until those that it could not settle may be handled again. It
// returns those.
func (c *consumer) held(ds []*handed, errs []error) (rest []*handed) {
	var hold time.Duration
	for i, wait := range c.settleAll(ds, errs) {
		if wait > 0 {
			rest, hold = append(rest, ds[i]), max(hold, wait)
		}
	}
	if len(rest) > 0 {
		c.pause(hold)
	}
	return rest
}

// batchTurn calls the handler once with all messages and returns the error of each. If a failure
// cannot be assigned to one message, it calls the handler with each message alone.
func (c *consumer) batchTurn(ds []*handed, h BatchHandler) []error {
	errs := make([]error, len(ds))
	var ready []int
	var ms []*Message
	for i, d := range ds {
		if errs[i] = c.take(d); errs[i] == nil {
			ready, ms = append(ready, i), append(ms, d.message)
		}
	}
	if len(ms) == 0 {
		return errs
	}
	told, err := c.callBatch(ms, h)
	for i, at := range ready {
		switch {
		case err != nil && len(ms) > 1:
			one, alone := c.callBatch(ms[i:i+1], h)
			if errs[at] = alone; len(one) > 0 && alone == nil {
				errs[at] = one[0]
			}
		case err != nil:
			errs[at] = err
		case len(told) > 0:
			errs[at] = told[i]
		}
	}
	return errs
}

// callBatch calls h. err is a failure of all messages.
func (c *consumer) callBatch(ms []*Message, h BatchHandler) (errs []error, err error) {
	err = call(func() error {
		errs = h(c.working, ms)
		return nil
	})
	if err == nil && len(errs) != 0 && len(errs) != len(ms) {
		err = wrongLength(len(errs), len(ms))
	}
	return errs, err
}

// settleAll settles many messages, up to 16 concurrently.
func (c *consumer) settleAll(ds []*handed, errs []error) []time.Duration {
	holds := make([]time.Duration, len(ds))
	parallel.Each(len(ds), 16, func(i int) { holds[i] = c.settle(ds[i], errs[i]) })
	return holds
}

// broker calls f with a context for calls of the broker. It outlives the handlers' context.
func (c *consumer) broker(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.working), settleTime)
	defer cancel()
	return f(ctx)
}
