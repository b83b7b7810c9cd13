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
	delivery Delivery
	received time.Time
	lane     string
	holds    int // how often it was held in a row
	history  history

	// For the current call of the handler:
	message  *Message
	handling *handling
	first    call // of the first one, so that it needs no memory of its own
	called   bool
}

// call is what one call of a handler gets.
type call struct {
	message  Message
	handling handling
}

// take returns the state of a delivery. It returns nil for a lost message, of which only the
// outcome is left.
func (c *consumer) take(d Delivery) *inFlight {
	f := &inFlight{delivery: d, received: time.Now(), message: d.Message()}
	f.handling = &f.first.handling
	f.handling.history = &f.history
	if lost, ok := d.(Lost); ok {
		err := lost.Lost()
		c.lines.say(c.Logger, slog.LevelError, "mqidem: a message is lost: its broker has dropped it before it was settled", err.Error(),
			slog.String("source", f.message.Source), slog.Time("published", f.message.Published), slog.Any("error", err))
		c.observe(f, OutcomeLost, err)
		return nil
	}
	f.history = c.returned.take(f.message)
	return f
}

// settleTime is how long the broker may take to answer.
const settleTime = 30 * time.Second

// prepare sets the message that the handler gets, with its id and what the handlers of this package
// need. If ready is false, the message cannot be handled, and the disposition says what to do.
func (c *consumer) prepare(d *inFlight) (_ disposition, ready bool) {
	one := d.next()
	m, h := &one.message, &one.handling
	*h = handling{limit: max(0, c.MaxAttempts), holds: c.holds, gaveUp: c.gaveUp, hands: &c.hands, logger: c.Logger, history: &d.history}
	h.deadLetter = func(_ context.Context, why Reason) error { return c.writeDeadLetter(d, why) }
	*m = *d.delivery.Message()
	m.passed, d.message, d.handling = h, m, h
	var err error
	large := c.MaxBody > 0 && len(m.Body) > c.MaxBody
	if !large { // MaxBody also bounds the search for an id
		err = c.identify(m)
	}
	why := d.history.dead
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
		why = d.reason(code, err)
	}
	return disposition{action: deadLetter, what: OutcomeDead, reason: why, err: err}, false
}

// next returns the place for a call. Each call has its own: an earlier handler may have kept it.
func (d *inFlight) next() *call {
	if d.called {
		return new(call)
	}
	d.called = true
	return &d.first
}

// identify sets the message's id according to the options.
func (c *consumer) identify(m *Message) error {
	if c.ID == nil && (m.ID != "" || c.MissingID == nil) {
		return nil
	}
	return c.hands.call(func() (err error) {
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
	for c.receiving.Err() == nil {
		p, ready := c.prepare(d)
		if ready {
			p = c.dispose(d, c.hands.call(func() error { return h(c.working, d.message) }))
		}
		wait, held := c.settle(d, p)
		if !held {
			return
		}
		c.pause(wait)
	}
	c.observe(d, OutcomeLeft, errStopped)
}

// pause waits for d or until the consumer ends. If Order is set, other messages may run meanwhile.
func (c *consumer) pause(d time.Duration) {
	c.turns.leave()
	defer c.turns.take()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.receiving.Done():
	}
}

// settle does with a message what p says. If held is true, the message is handled again after wait.
func (c *consumer) settle(d *inFlight, p disposition) (wait time.Duration, held bool) {
	if p.action == deadLetter {
		p = c.deadLetter(d, p)
	}
	switch p.action {
	case ack:
		err := c.ack(d)
		if err != nil && !errors.Is(err, ErrStale) {
			c.lines.warn(c.Logger, "mqidem: a message that is done could not be acked; it is delivered again, and is acked then", err)
		}
		c.observe(d, p.what, err)
		return 0, false
	case requeue:
		d.holds = 0
		if d.lane != "" { // later messages of its name wait
			c.observe(d, p.what, p.err)
			return max(p.after, time.Millisecond), true
		}
		c.requeue(d, p)
		return 0, false
	case hold:
		return c.hold(d, p.err)
	}
	c.observe(d, p.what, p.err)
	return 0, false
}

// requeue asks the broker for a redelivery.
func (c *consumer) requeue(d *inFlight, p disposition) {
	if cause := c.broker(func(ctx context.Context) error { return d.delivery.Retry(ctx, p.after) }); cause != nil {
		p.what, p.err = OutcomeLeft, errors.Join(p.err, cause)
		c.lines.warn(c.Logger, "mqidem: a message could not be put back for a later try; the broker delivers it again when it sees that this consumer has gone", cause)
	}
	c.observe(d, p.what, p.err)
}

// hold returns how long a message is held, or returns it to the broker if it was held too often.
func (c *consumer) hold(d *inFlight, err error) (wait time.Duration, held bool) {
	d.holds++
	c.lines.warn(c.Logger, "mqidem: a message is held, since nothing can be done with it at present", err, slog.Int("times", d.holds))
	if d.holds > mostHolds && d.lane == "" && c.giveBack(d, err) {
		return 0, false
	}
	half := firstHold << min(d.holds, 7) / 2
	return half + rand.N(half), true
}

// giveBack returns a message to the broker for a while if it cannot be moved to the dead-letter
// queue. Otherwise a few such messages could be all that the consumer holds.
func (c *consumer) giveBack(d *inFlight, err error) bool {
	if d.history.dead == nil { // the store is unavailable, which would stop other messages too
		return false
	}
	m := d.delivery.Message()
	if !c.returned.put(m, d.history) {
		return false
	}
	if cause := c.broker(func(ctx context.Context) error { return d.delivery.Retry(ctx, deadLetterWait) }); cause != nil {
		c.returned.take(m)
		return false
	}
	c.observe(d, OutcomeLater, err)
	return true
}

func (c *consumer) observe(d *inFlight, what string, err error) {
	if c.OnOutcome != nil {
		c.OnOutcome(context.WithoutCancel(c.working), Outcome{What: what, Message: d.message, Try: d.handling.result.try, Err: err, Took: time.Since(d.received)})
	}
}

// broker calls f with a context for calls of the broker. It outlives the handlers' context.
func (c *consumer) broker(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.working), settleTime)
	defer cancel()
	return f(ctx)
}

// ack acks a message. Most acks never wait for the broker, so their context starts no timer.
func (c *consumer) ack(d *inFlight) error {
	ctx := &detached.Context{}
	ctx.Begin(c.working, time.Now().Add(settleTime))
	defer ctx.Stop()
	return d.delivery.Ack(ctx)
}

const (
	firstHold = 100 * time.Millisecond

	mostHolds      = 4 // holds of a message without a dead letter before it is given back
	deadLetterWait = time.Minute
)
