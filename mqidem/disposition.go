package mqidem

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe"
)

// disposition says what to do with a message after its handler has returned.
type disposition struct {
	action action
	// what is the outcome that OnOutcome gets; see [Outcome].
	what string
	// after is how long the message waits, if action is requeue.
	after time.Duration
	// reason is for a dead letter.
	reason *Reason
	// err is why the work was not done.
	err error
}

// action is what Consume does with a message.
type action uint8

const (
	// ack reports the message as done.
	ack action = iota
	// requeue asks the broker for a redelivery after a time.
	requeue
	// deadLetter moves the message to the dead-letter queue.
	deadLetter
	// hold keeps the message, which is handled again after a while.
	hold
	// leave settles nothing: the message is settled, or the broker redelivers it.
	leave
)

const laterWait = time.Second

// dispose decides what to do with a message, from the report of its handler and from the error.
func (c *consumer) dispose(d *inFlight, err error) disposition {
	switch r := d.handling.result; {
	case r.kind == dead:
		return disposition{action: leave, what: OutcomeDead, err: err}
	case err == nil && r.kind == duplicate:
		return disposition{action: ack, what: OutcomeDuplicate}
	case err == nil:
		return disposition{action: ack, what: OutcomeDone}
	}
	return c.disposeFailed(d, err)
}

// disposeFailed decides what to do with a message whose handler has returned an error.
func (c *consumer) disposeFailed(d *inFlight, err error) disposition {
	var short *retentionError
	var failed *deadLetterError
	switch r := d.handling.result; {
	case errors.As(err, &short):
		c.fail(short)
		return disposition{action: leave, what: OutcomeLeft, err: err}
	case errors.As(err, &failed):
		return failed.disposition(err)
	case c.working.Err() != nil: // the consumer has ended
		return disposition{action: leave, what: OutcomeLeft, err: err}
	case r.kind == failedTry:
		return disposition{action: requeue, what: OutcomeAgain, after: c.Backoff(r.try), err: err}
	}
	wait, later := retrysafe.Retryable(err)
	code := retrysafe.CodeOf(err)
	switch {
	case !later, code == retrysafe.CodeOutcomeUnknown && !errors.Is(err, retrysafe.ErrInDoubt) && !errors.Is(err, retrysafe.ErrUnconfirmed):
		// the work has failed, also if a retry would run it
	case code == retrysafe.CodeStoreUnavailable, code == retrysafe.CodeShuttingDown:
		return disposition{action: hold, err: err}
	default:
		return disposition{action: requeue, what: OutcomeLater, after: max(wait, laterWait), err: err}
	}
	return c.disposePlain(d, err)
}

// disposePlain is for handlers that keep no record; it uses the broker's count.
func (c *consumer) disposePlain(d *inFlight, err error) disposition {
	d.history.failures++
	try := max(d.history.failures, d.message.Deliveries)
	d.handling.result.try = try
	why := ""
	if (retrysafe.Policy{OnDoubt: retrysafe.Reexecute}).OutcomeOf(err) == retrysafe.Failed {
		why = whyRefused(err)
	} else if limit := d.handling.limit; limit > 0 && try >= limit {
		why = DeadTries
	}
	if why == "" {
		return disposition{action: requeue, what: OutcomeAgain, after: c.Backoff(try), err: err}
	}
	return disposition{action: deadLetter, what: OutcomeDead, reason: d.reason(why, err), err: err}
}

// reason is for a dead letter that no handler of this package has seen.
func (d *inFlight) reason(why string, err error) *Reason {
	m := d.message
	return &Reason{
		Why: why, Error: err.Error(), Tries: d.handling.result.try, Source: m.Source, At: time.Now().UTC(), Redrives: m.redrives(),
	}
}

// deadLetter moves a message to the dead-letter queue, and settles it. After an error the message
// is held, and no longer handled: only this is tried again.
func (c *consumer) deadLetter(d *inFlight, p disposition) disposition {
	cause := c.writeDeadLetter(d, *p.reason)
	if cause == nil {
		return disposition{action: leave, what: OutcomeDead, err: p.err}
	}
	d.history.dead, d.history.deadError = p.reason, p.err
	failed := &deadLetterError{cause}
	c.lines.warn(c.Logger, "mqidem: a message could not be moved to the dead-letter queue", failed)
	return failed.disposition(failed)
}

func (c *consumer) writeDeadLetter(d *inFlight, why Reason) error {
	err := c.broker(func(ctx context.Context) error {
		if c.DeadLetter == nil {
			return d.delivery.Dead(ctx, why)
		}
		if err := c.hands.call(func() error { return c.DeadLetter(ctx, d.message, why) }); err != nil {
			return err
		}
		return d.delivery.Ack(ctx)
	})
	if err == nil {
		c.lines.say(c.Logger, slog.LevelError, "mqidem: a message is dead", why.Why+" "+why.Consumer+" "+why.Source,
			slog.String("why", why.Why), slog.Int("tries", why.Tries), slog.String("consumer", why.Consumer), slog.String("source", why.Source))
	}
	return err
}
