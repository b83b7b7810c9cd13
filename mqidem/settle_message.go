package mqidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/internal/detached"
)

// inFlight is a delivery that Consume holds.
type inFlight struct {
	delivery  Delivery
	received  time.Time
	lane      string
	heldInRow int // how often it was held in a row
	history   history

	// For the current call of the handler:
	message   *Message
	handling  *handling
	firstCall handlerCall // of the first one, so that it needs no memory of its own
	called    bool
}

// handlerCall is what one call of a handler gets.
type handlerCall struct {
	message  Message
	handling handling
}

// trackDelivery returns the state of a delivery. It returns nil for a lost message, of which only
// the outcome is left.
func (c *consumer) trackDelivery(d Delivery) *inFlight {
	f := &inFlight{delivery: d, received: time.Now(), message: d.Message()}
	f.handling = &f.firstCall.handling
	f.handling.history = &f.history
	if lost, ok := d.(Lost); ok {
		err := lost.Lost()
		c.limitedLog.write(c.Logger, slog.LevelError, "mqidem: a message is lost: its broker has dropped it before it was settled", err.Error(),
			slog.String("source", f.message.Source), slog.Time("published", f.message.Published), slog.Any("error", err))
		c.reportOutcome(f, OutcomeLost, err)
		return nil
	}
	f.history = c.returned.pop(f.message)
	return f
}

// settleTime is how long the broker may take to answer.
const settleTime = 30 * time.Second

// prepare sets the message that the handler gets, with its id and what the handlers of this package
// need. If ready is false, the message cannot be handled, and the disposition says what to do.
func (c *consumer) prepare(d *inFlight) (_ disposition, ready bool) {
	one := d.nextCall()
	m, h := &one.message, &one.handling
	*h = handling{limit: max(0, c.MaxAttempts), brokerHolds: c.brokerHolds, abandoned: c.abandoned, pool: &c.pool, logger: c.Logger, history: &d.history}
	h.deadLetter = func(_ context.Context, why Reason) error { return c.writeDeadLetter(d, why) }
	*m = *d.delivery.Message()
	m.passed, d.message, d.handling = h, m, h
	var err error
	large := c.MaxBody > 0 && len(m.Body) > c.MaxBody
	if !large { // MaxBody also bounds the search for an id
		err = c.setMessageID(m)
	}
	why := d.history.deadReason
	code := DeadPoison
	switch {
	case why != nil && why.Key == "":
		// it has no record that a handler of this package must finish
		err = d.history.deadError
	case large:
		err, code = fmt.Errorf("mqidem: the body has %d bytes, and Options.MaxBody is %d", len(m.Body), c.MaxBody), DeadTooLarge
	case err == nil:
		return disposition{}, true
	}
	if why == nil {
		why = d.unrecordedReason(code, err)
	}
	return disposition{action: actionDeadLetter, outcome: OutcomeDead, reason: why, err: err}, false
}

// nextCall returns the place for a call. Each call has its own: an earlier handler may have kept
// it.
func (d *inFlight) nextCall() *handlerCall {
	if d.called {
		return new(handlerCall)
	}
	d.called = true
	return &d.firstCall
}

// setMessageID sets the message's id according to the options.
func (c *consumer) setMessageID(m *Message) error {
	if c.ID == nil && (m.ID != "" || c.MissingID == nil) {
		return nil
	}
	return c.pool.callGuarded(func() (err error) {
		if c.ID != nil {
			m.ID, err = c.ID(m)
		}
		if m.ID == "" && err == nil && c.MissingID != nil {
			m.ID, err = c.MissingID(m)
		}
		return err
	})
}

// handle works on one message until it is settled or left to the broker.
func (c *consumer) handle(d *inFlight, h Handler) {
	for c.receiveCtx.Err() == nil {
		p, ready := c.prepare(d)
		if ready {
			p = c.decide(d, c.pool.callGuarded(func() error { return h(c.handlerCtx, d.message) }))
		}
		wait, held := c.settleMessage(d, p)
		if !held {
			return
		}
		c.pause(wait)
	}
	c.reportOutcome(d, OutcomeLeft, errStopped)
}

// pause waits for d or until the consumer ends. If Order is set, other messages may run meanwhile.
func (c *consumer) pause(d time.Duration) {
	c.slots.release()
	defer c.slots.acquire()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.receiveCtx.Done():
	}
}

// settleMessage does with a message what p says. If held is true, the message is handled again
// after wait.
func (c *consumer) settleMessage(d *inFlight, p disposition) (wait time.Duration, held bool) {
	if p.action == actionDeadLetter {
		p = c.moveToDeadLetters(d, p)
	}
	switch p.action {
	case actionAck:
		err := c.ack(d)
		if err != nil && !errors.Is(err, ErrStale) {
			c.limitedLog.warn(c.Logger, "mqidem: a message that is done could not be acked; it is delivered again, and is acked then", err)
		}
		c.reportOutcome(d, p.outcome, err)
		return 0, false
	case actionRequeue:
		d.heldInRow = 0
		if d.lane != "" { // later messages of its name wait
			c.reportOutcome(d, p.outcome, p.err)
			return max(p.delay, time.Millisecond), true
		}
		c.requeue(d, p)
		return 0, false
	case actionHold:
		return c.holdOrReturn(d, p.err)
	}
	c.reportOutcome(d, p.outcome, p.err)
	return 0, false
}

// requeue asks the broker for a redelivery.
func (c *consumer) requeue(d *inFlight, p disposition) {
	if cause := c.callBroker(func(ctx context.Context) error { return d.delivery.Retry(ctx, p.delay) }); cause != nil {
		p.outcome, p.err = OutcomeLeft, errors.Join(p.err, cause)
		c.limitedLog.warn(c.Logger, "mqidem: a message could not be put back for a later try; the broker delivers it again when it sees that this consumer has gone", cause)
	}
	c.reportOutcome(d, p.outcome, p.err)
}

// holdOrReturn returns how long a message is held, or returns it to the broker if it was held too
// often.
func (c *consumer) holdOrReturn(d *inFlight, err error) (wait time.Duration, held bool) {
	d.heldInRow++
	c.limitedLog.warn(c.Logger, "mqidem: a message is held, since nothing can be done with it at present", err, slog.Int("times", d.heldInRow))
	if d.heldInRow > mostHolds && d.lane == "" && c.returnToBroker(d, err) {
		return 0, false
	}
	half := firstHold << min(d.heldInRow, 7) / 2
	return half + rand.N(half), true
}

// returnToBroker returns a message to the broker for a while if it cannot be moved to the
// dead-letter queue. Otherwise a few such messages could be all that the consumer holds.
func (c *consumer) returnToBroker(d *inFlight, err error) bool {
	if d.history.deadReason == nil {
		// the store is unavailable, which would stop other messages too
		return false
	}
	m := d.delivery.Message()
	if !c.returned.add(m, d.history) {
		return false
	}
	if cause := c.callBroker(func(ctx context.Context) error { return d.delivery.Retry(ctx, deadLetterWait) }); cause != nil {
		c.returned.pop(m)
		return false
	}
	c.reportOutcome(d, OutcomeLater, err)
	return true
}

func (c *consumer) reportOutcome(d *inFlight, what string, err error) {
	if c.OnOutcome != nil {
		c.OnOutcome(context.WithoutCancel(c.handlerCtx), Outcome{What: what, Message: d.message, Try: d.handling.result.try, Err: err, Took: time.Since(d.received)})
	}
}

// callBroker calls f with a context for calls of the broker. It outlives the handlers' context.
func (c *consumer) callBroker(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.handlerCtx), settleTime)
	defer cancel()
	return f(ctx)
}

// ack acks a message. Most acks never wait for the broker, so their context starts no timer.
func (c *consumer) ack(d *inFlight) error {
	ctx := &detached.Context{}
	ctx.Begin(c.handlerCtx, time.Now().Add(settleTime))
	defer ctx.Stop()
	return d.delivery.Ack(ctx)
}

const (
	firstHold = 100 * time.Millisecond

	mostHolds      = 4 // holds of a message without a dead letter before it is given back
	deadLetterWait = time.Minute
)
