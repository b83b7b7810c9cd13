package mqidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe"
)

// handed is a delivery that Consume holds.
type handed struct {
	Delivery
	received time.Time
	lane     string
	holds    int // how often it was held in a row
	past     past

	// For the current call of the handler:
	message *Message
	run     *run
}

func (c *consumer) handed(d Delivery) *handed {
	h := &handed{Delivery: d, received: time.Now(), message: d.Message()}
	h.past = c.shelf.take(h.message)
	h.run = &run{past: &h.past}
	return h
}

// settleTime is how long the broker may take to answer.
const settleTime = 30 * time.Second

// take sets the message that the handler gets, with its id and what the handlers of this package
// need. An error means that the message cannot be handled. It is then a dead letter, or a
// deadLetterError says why it is not.
func (c *consumer) take(d *handed) error {
	m := *d.Delivery.Message()
	r := &run{limit: max(0, c.MaxDeliveries), holds: c.holds, gaveUp: c.gaveUp, past: &d.past}
	m.run, d.message, d.run = r, &m, r
	r.park = func(_ context.Context, why Reason) error { return c.park(d, why) }
	var err error
	large := c.MaxBody > 0 && len(m.Body) > c.MaxBody
	if !large { // MaxBody also bounds the search for an id
		err = c.identify(&m)
	}
	switch {
	case d.past.dead != nil && d.past.dead.Key == "":
		// it has no record that a handler of this package must finish
		return c.refuse(d, d.past.dead.Why, errors.New(d.past.dead.Error))
	case large:
		return c.refuse(d, DeadTooLarge, fmt.Errorf("mqidem: the body has %d bytes, and Options.MaxBody is %d", len(m.Body), c.MaxBody))
	case err != nil:
		return c.refuse(d, DeadPoison, err)
	}
	return nil
}

// identify sets the message's id according to the options.
func (c *consumer) identify(m *Message) error {
	if c.ID == nil && (m.ID != "" || c.MissingID == nil) {
		return nil
	}
	return call(func() (err error) {
		if c.ID != nil {
			m.ID, err = c.ID(m)
		}
		if m.ID == "" && err == nil && c.MissingID != nil {
			m.ID, err = c.MissingID(m)
		}
		return err
	})
}

// refuse makes a dead letter of a message that no handler of this package has seen.
func (c *consumer) refuse(d *handed, why string, err error) error {
	m := d.message
	reason := Reason{Why: why, Error: err.Error(), Tries: d.run.tries, Source: m.Source, At: time.Now().UTC(), Redrives: m.redrives()}
	if d.past.dead != nil {
		reason = *d.past.dead
	}
	if cause := c.park(d, reason); cause != nil {
		d.past.dead = &reason
		return &deadLetterError{cause}
	}
	d.run.parked = true
	return err
}

func (c *consumer) park(d *handed, why Reason) error {
	err := c.broker(func(ctx context.Context) error {
		if c.DeadLetter == nil {
			return d.Dead(ctx, why)
		}
		if err := call(func() error { return c.DeadLetter(ctx, d.message, why) }); err != nil {
			return err
		}
		return d.Ack(ctx)
	})
	if err == nil {
		c.Logger.Error("mqidem: a message is dead", slog.String("why", why.Why), slog.Int("tries", why.Tries), slog.String("consumer", why.Consumer), slog.String("source", why.Source))
	}
	return err
}

// handle works on one message until it is settled or left to the broker.
func (c *consumer) handle(d *handed, h Handler) {
	for c.receiving.Err() == nil {
		err := c.take(d)
		if err == nil {
			err = call(func() error { return h(c.working, d.message) })
		}
		hold := c.settle(d, err)
		if hold == 0 {
			return
		}
		c.pause(hold)
	}
	c.tell(d, Left, errStopped)
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

// settle settles a message with the broker. If it returns a time, the message is held and handled
// again after that time.
func (c *consumer) settle(d *handed, err error) (hold time.Duration) {
	what, after := c.judge(d, err)
	switch what {
	case Dead, Left:
		c.tell(d, what, err)
		return 0
	case Done, Repeat:
		err := c.broker(d.Ack)
		if err != nil && !errors.Is(err, ErrStale) {
			c.Logger.Warn("mqidem: a message that is done could not be acked; it comes again, and is acked then", slog.Any("error", err))
		}
		c.tell(d, what, err)
		return 0
	case held:
		if d.holds++; d.holds%holdsTold == 1 {
			c.Logger.Warn("mqidem: a message is held, since nothing can be done with it at present", slog.Any("error", err), slog.Int("times", d.holds))
		}
		if d.holds > mostHolds && d.lane == "" && c.letGo(d, err) {
			return 0
		}
		return firstHold<<min(d.holds, 7)/2 + rand.N(firstHold<<min(d.holds, 7)/2)
	}
	d.holds = 0
	if d.lane != "" { // later messages of its name wait
		c.tell(d, what, err)
		return max(after, time.Millisecond)
	}
	if cause := c.broker(func(ctx context.Context) error { return d.Retry(ctx, after) }); cause != nil {
		what, err = Left, errors.Join(err, cause)
		c.Logger.Warn("mqidem: a message could not be put back for a later try; the broker delivers it again when it sees that this consumer has gone", slog.Any("error", cause))
	}
	c.tell(d, what, err)
	return 0
}

// letGo gives a message back to the broker for a while if it cannot be moved to the dead-letter
// queue. Otherwise a few such messages could be all that the consumer holds.
func (c *consumer) letGo(d *handed, err error) bool {
	if d.past.dead == nil { // the store is unavailable, which would stop other messages too
		return false
	}
	if !c.shelf.put(d.Delivery.Message(), d.past) {
		return false
	}
	if cause := c.broker(func(ctx context.Context) error { return d.Retry(ctx, deadLetterWait) }); cause != nil {
		c.shelf.take(d.Delivery.Message())
		return false
	}
	c.tell(d, Later, err)
	return true
}

func (c *consumer) tell(d *handed, what string, err error) {
	if c.Observe != nil {
		c.Observe(Outcome{What: what, Message: d.message, Try: d.run.tries, Err: err, Took: time.Since(d.received)})
	}
}

// held is an outcome that Observe does not get: Consume keeps the message.
const held = "held"

const (
	firstHold = 100 * time.Millisecond
	laterWait = time.Second

	mostHolds      = 4  // holds of a message without a dead letter before it is given back
	holdsTold      = 10 // one log line for each so many holds
	deadLetterWait = time.Minute
)

// judge decides the outcome of a message from the result of its handler.
func (c *consumer) judge(d *handed, err error) (what string, after time.Duration) {
	r := d.run
	var short *retentionError
	var failed *deadLetterError
	switch {
	case r.parked:
		return Dead, 0
	case err == nil && r.repeat:
		return Repeat, 0
	case err == nil:
		return Done, 0
	case errors.As(err, &short):
		c.fail(short)
		return Left, 0
	case errors.As(err, &failed):
		return failed.what(), 0
	case c.working.Err() != nil: // the consumer has ended
		return Left, 0
	case r.failed:
		return Again, c.Backoff(r.tries)
	}
	wait, later := retrysafe.Retryable(err)
	switch {
	case errors.Is(err, retrysafe.ErrInProgress), errors.Is(err, retrysafe.ErrLeaseLost), errors.Is(err, retrysafe.ErrAttemptFailed),
		errors.Is(err, retrysafe.ErrUnconfirmed), errors.Is(err, retrysafe.ErrTooManyKeys), errors.Is(err, retrysafe.ErrTooManyRequests),
		errors.Is(err, retrysafe.ErrInDoubt) && later:
		return Later, max(wait, laterWait)
	case errors.Is(err, retrysafe.ErrUnavailable), errors.Is(err, retrysafe.ErrClosed):
		return held, 0
	}
	return c.judgePlain(d, err)
}

// judgePlain is for handlers that keep no record; it uses the broker's count.
func (c *consumer) judgePlain(d *handed, err error) (what string, after time.Duration) {
	d.past.turns++
	d.run.tries = max(d.past.turns, d.message.Deliveries)
	why := ""
	if (retrysafe.Policy{OnDoubt: retrysafe.Reexecute}).OutcomeOf(err) == retrysafe.Failed {
		why = whyRefused(err)
	} else if d.run.limit > 0 && d.run.tries >= d.run.limit {
		why = DeadTries
	}
	if why == "" {
		return Again, c.Backoff(d.run.tries)
	}
	var failed *deadLetterError
	if !errors.As(c.refuse(d, why, err), &failed) {
		return Dead, 0
	}
	if what = failed.what(); what == held {
		c.Logger.Warn("mqidem: a message could not become a dead letter", slog.Any("error", failed))
	}
	return what, 0
}
