package natsidem

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// The answers to the server about a message.
var (
	ackAnswer      = []byte("+ACK")
	nakAnswer      = []byte("-NAK")
	progressAnswer = []byte("+WPI")
)

// delivery is a message that a consumer holds.
type delivery struct {
	source  *Source
	message *mqidem.Message
	reply   string // where the answers go
	state   *mqidem.Settlement
}

func newDelivery(s *Source, reply string, m *mqidem.Message) *delivery {
	return &delivery{source: s, message: m, reply: reply, state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.message }

// Ack implements mqidem.Delivery. It returns when the server has confirmed the ack: if no record is
// kept, a lost ack would run the work again.
func (d *delivery) Ack(ctx context.Context) error { return d.settleOnce(ctx, nil, ackAnswer) }

// Retry implements mqidem.Delivery: the server keeps the message and the time. A server that was
// restarted on its files may deliver up to a second early, since it stores whole seconds.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	if after <= 0 {
		return d.settleOnce(ctx, nil, nakAnswer)
	}
	return d.settleOnce(ctx, nil, fmt.Appendf(nil, `-NAK {"delay": %d}`, after.Nanoseconds()))
}

// Dead implements mqidem.Delivery. If the dead letter was stored and its ack has failed, another
// call only acks.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settleOnce(ctx, func(ctx context.Context) error { return d.source.deadLetters.addDeadLetter(ctx, d.message, why) }, ackAnswer)
}

// settleOnce writes the dead letter, if there is one, sends the answer to the server, and waits for
// its confirmation. Each step has the whole timeout. After an error of Ack or Retry the source
// reports no more progress, so the server redelivers the message after AckWait; until then it can
// still be settled. In Dead the caller holds the message until the dead letter is stored and acked,
// and tries again.
func (d *delivery) settleOnce(ctx context.Context, write func(context.Context) error, word []byte) error {
	steps := mqidem.SettleSteps{Answer: func(ctx context.Context) error {
		return d.withTimeout(ctx, func(ctx context.Context) error { return d.sendAnswer(ctx, word, write == nil) })
	}}
	if write == nil {
		defer d.source.stopProgress(d)
	} else {
		steps.Write = func(ctx context.Context) error {
			return d.withTimeout(ctx, func(ctx context.Context) error {
				if err := d.waitUntilCurrent(ctx); err != nil {
					return err
				}
				return write(ctx)
			})
		}
	}
	err := d.state.Settle(ctx, steps)
	if err == nil {
		d.source.stopProgress(d)
	}
	return err
}

// sendAnswer sends the answer to the server. With silent, progress ends first: progress that
// follows a Retry would undo its delay.
func (d *delivery) sendAnswer(ctx context.Context, word []byte, silent bool) error {
	if err := d.waitUntilCurrent(ctx); err != nil {
		return err
	}
	if silent {
		d.source.stopProgress(d)
	}
	if err := d.source.trust.request(ctx, d.source.nc, d.source.queue.Ended(), d.reply, word); err != nil {
		return fmt.Errorf("natsidem: the server has not confirmed it; the message may be redelivered: %w", explainSilence(d.source.nc, d.reply, err))
	}
	return nil
}

// withTimeout runs a step with the whole timeout.
func (d *delivery) withTimeout(ctx context.Context, step func(context.Context) error) error {
	ctx, end := context.WithTimeout(ctx, d.source.o.Timeout)
	defer end()
	return step(ctx)
}

// waitUntilCurrent waits until answers reach the consumer that has delivered the message.
func (d *delivery) waitUntilCurrent(ctx context.Context) error {
	if _, err := d.source.trust.waitUntilCurrent(ctx, d.source.nc, d.source.queue.Ended()); err != nil {
		return fmt.Errorf("natsidem: not settled: %w", err)
	}
	return nil
}
