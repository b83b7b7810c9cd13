package mqidem

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/parallel"
)

// handleBatch works on messages until all are settled or left to the broker.
func (c *consumer) handleBatch(ds []*inFlight, h BatchHandler) {
	for len(ds) > 0 && c.receiveCtx.Err() == nil {
		ds = c.settleAll(ds, c.runBatch(ds, h))
	}
	for _, d := range ds {
		c.reportOutcome(d, OutcomeLeft, errStopped)
	}
}

// settleAll settles many messages, and waits until those that it could not settle may be handled
// again. It returns those. All acks are made concurrently, so that a source can send them together;
// the others, of which a source may have to write copies, up to 16 at a time.
func (c *consumer) settleAll(ds []*inFlight, ps []disposition) (rest []*inFlight) {
	waits, held := make([]time.Duration, len(ds)), make([]bool, len(ds))
	var acks, others []int
	for i, p := range ps {
		if p.action == actionAck {
			acks = append(acks, i)
		} else {
			others = append(others, i)
		}
	}
	settle := func(i int) { waits[i], held[i] = c.settleMessage(ds[i], ps[i]) }
	c.pool.callEach(len(acks), func(n int) { settle(acks[n]) })
	parallel.Each(len(others), 16, func(n int) { settle(others[n]) })
	var wait time.Duration
	for i, d := range ds {
		if held[i] {
			rest, wait = append(rest, d), max(wait, waits[i])
		}
	}
	if len(rest) > 0 {
		c.pause(wait)
	}
	return rest
}

// runBatch calls the handler once with all messages and returns what to do with each. If a failure
// cannot be assigned to one message, it calls the handler with each message alone.
func (c *consumer) runBatch(ds []*inFlight, h BatchHandler) []disposition {
	ps := make([]disposition, len(ds))
	var ready []int
	var ms []*Message
	for i, d := range ds {
		p, ok := c.prepare(d)
		if ps[i] = p; ok {
			ready, ms = append(ready, i), append(ms, d.message)
		}
	}
	if len(ms) == 0 {
		return ps
	}
	errs, err := c.callBatch(ms, h)
	for i, at := range ready {
		one := err
		switch {
		case err != nil && len(ms) > 1:
			one = c.callOne(ms[i], h)
		case err == nil && len(errs) > 0:
			one = errs[i]
		}
		ps[at] = c.decide(ds[at], one)
	}
	return ps
}

// callOne calls h with one message.
func (c *consumer) callOne(m *Message, h BatchHandler) error {
	errs, err := c.callBatch([]*Message{m}, h)
	if err == nil && len(errs) > 0 {
		return errs[0]
	}
	return err
}

// callBatch calls h. err is a failure of all messages.
func (c *consumer) callBatch(ms []*Message, h BatchHandler) (errs []error, err error) {
	err = c.pool.callGuarded(func() error {
		errs = h(c.handlerCtx, ms)
		return nil
	})
	if err == nil && len(errs) != 0 && len(errs) != len(ms) {
		err = wrongLength(len(errs), len(ms))
	}
	return errs, err
}
