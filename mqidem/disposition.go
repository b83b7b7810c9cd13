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
	// outcome is the outcome that OnOutcome gets; see [Outcome].
	outcome string
	// delay is how long the message waits, if action is actionRequeue.
	delay time.Duration
	// reason is for a dead letter.
	reason *Reason
	// err is why the work was not done.
	err error
}

// action is what Consume does with a message.
type action uint8

const (
	// actionAck reports the message as done.
	actionAck action = iota
	// actionRequeue asks the broker for a redelivery after a time.
	actionRequeue
	// actionDeadLetter moves the message to the dead-letter queue.
	actionDeadLetter
	// actionHold keeps the message, which is handled again after a while.
	actionHold
	// actionLeave settles nothing: the message is settled, or the broker redelivers it.
	actionLeave
)

const minLaterWait = time.Second

// decide decides what to do with a message, from the report of its handler and from the error.
func (c *consumer) decide(d *inFlight, err error) disposition {
	switch r := d.handling.result; {
	case r.kind == resultDead:
		return disposition{action: actionLeave, outcome: OutcomeDead, err: err}
	case err == nil && r.kind == resultDuplicate:
		return disposition{action: actionAck, outcome: OutcomeDuplicate}
	case err == nil:
		return disposition{action: actionAck, outcome: OutcomeDone}
	}
	return c.decideFailed(d, err)
}

// decideFailed decides what to do with a message whose handler has returned an error.
func (c *consumer) decideFailed(d *inFlight, err error) disposition {
	var short *retentionError
	var failed *deadLetterError
	switch r := d.handling.result; {
	case errors.As(err, &short):
		c.endWithError(short)
		return disposition{action: actionLeave, outcome: OutcomeLeft, err: err}
	case errors.As(err, &failed):
		return failed.disposition(err)
	case c.handlerCtx.Err() != nil: // the consumer has ended
		return disposition{action: actionLeave, outcome: OutcomeLeft, err: err}
	case r.kind == resultFailed:
		return disposition{action: actionRequeue, outcome: OutcomeAgain, delay: c.Backoff(r.try), err: err}
	}
	wait, later := retrysafe.Retryable(err)
	code := retrysafe.CodeOf(err)
	switch {
	case !later, code == retrysafe.CodeOutcomeUnknown && !errors.Is(err, retrysafe.ErrInDoubt) && !errors.Is(err, retrysafe.ErrUnconfirmed):
		// the work has failed, also if a retry would run it
	case code == retrysafe.CodeStoreUnavailable, code == retrysafe.CodeShuttingDown:
		return disposition{action: actionHold, err: err}
	default:
		return disposition{action: actionRequeue, outcome: OutcomeLater, delay: max(wait, minLaterWait), err: err}
	}
	return c.decideUnrecorded(d, err)
}

// decideUnrecorded is for handlers that keep no record; it uses the broker's count.
func (c *consumer) decideUnrecorded(d *inFlight, err error) disposition {
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
		return disposition{action: actionRequeue, outcome: OutcomeAgain, delay: c.Backoff(try), err: err}
	}
	return disposition{action: actionDeadLetter, outcome: OutcomeDead, reason: d.unrecordedReason(why, err), err: err}
}

// unrecordedReason is for a dead letter that no handler of this package has seen.
func (d *inFlight) unrecordedReason(why string, err error) *Reason {
	m := d.message
	return &Reason{
		Why: why, Error: err.Error(), Tries: d.handling.result.try, Source: m.Source, At: time.Now().UTC(), Redrives: m.redriveCount(),
	}
}

// moveToDeadLetters moves a message to the dead-letter queue, and settles it. After an error the
// message is held, and no longer handled: only this is tried again.
func (c *consumer) moveToDeadLetters(d *inFlight, p disposition) disposition {
	cause := c.writeDeadLetter(d, *p.reason)
	if cause == nil {
		return disposition{action: actionLeave, outcome: OutcomeDead, err: p.err}
	}
	d.history.deadReason, d.history.deadError = p.reason, p.err
	failed := &deadLetterError{cause}
	c.limitedLog.warn(c.Logger, "mqidem: a message could not be moved to the dead-letter queue", failed)
	return failed.disposition(failed)
}

func (c *consumer) writeDeadLetter(d *inFlight, why Reason) error {
	err := c.callBroker(func(ctx context.Context) error {
		if c.DeadLetter == nil {
			return d.delivery.Dead(ctx, why)
		}
		if err := c.pool.callGuarded(func() error { return c.DeadLetter(ctx, d.message, why) }); err != nil {
			return err
		}
		return d.delivery.Ack(ctx)
	})
	if err == nil {
		c.limitedLog.write(c.Logger, slog.LevelError, "mqidem: a message is dead", why.Why+" "+why.Consumer+" "+why.Source,
			slog.String("why", why.Why), slog.Int("tries", why.Tries), slog.String("consumer", why.Consumer), slog.String("source", why.Source))
	}
	return err
}
