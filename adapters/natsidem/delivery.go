package natsidem

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// The answers to the server about a message.
var (
	ack        = []byte("+ACK")
	nak        = []byte("-NAK")
	inProgress = []byte("+WPI")
)

// delivery is a message that a consumer holds.
type delivery struct {
	s     *Source
	m     *mqidem.Message
	reply string // where the answers go
	state *mqidem.Settlement
}

func newDelivery(s *Source, reply string, m *mqidem.Message) *delivery {
	return &delivery{s: s, m: m, reply: reply, state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. It returns when the server has confirmed the ack: if no record is
// kept, a lost ack would run the work again.
func (d *delivery) Ack(ctx context.Context) error { return d.settle(ctx, nil, ack) }

// Retry implements mqidem.Delivery: the server keeps the message and the time. A server that was
// restarted on its files may deliver up to a second early, since it stores whole seconds.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	if after <= 0 {
		return d.settle(ctx, nil, nak)
	}
	return d.settle(ctx, nil, fmt.Appendf(nil, `-NAK {"delay": %d}`, after.Nanoseconds()))
}

// Dead implements mqidem.Delivery. If the dead letter was stored and its ack has failed, another
// call only acks.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(ctx, func(ctx context.Context) error { return d.s.deadLetters.add(ctx, d.m, why) }, ack)
}

// settle writes the dead letter, if there is one, sends the answer to the server, and waits for its
// confirmation. Each step has the whole timeout. After an error of Ack or Retry the source reports
// no more progress, so the server redelivers the message after AckWait; until then it can still be
// settled. In Dead the caller holds the message until the dead letter is stored and acked, and
// tries again.
func (d *delivery) settle(ctx context.Context, write func(context.Context) error, word []byte) error {
	steps := mqidem.SettleSteps{Answer: func(ctx context.Context) error {
		return d.within(ctx, func(ctx context.Context) error { return d.answer(ctx, word, write == nil) })
	}}
	if write == nil {
		defer d.s.letGo(d)
	} else {
		steps.Write = func(ctx context.Context) error {
			return d.within(ctx, func(ctx context.Context) error {
				if err := d.sure(ctx); err != nil {
					return err
				}
				return write(ctx)
			})
		}
	}
	err := d.state.Settle(ctx, steps)
	if err == nil {
		d.s.letGo(d)
	}
	return err
}

// answer sends the answer to the server. With silent, progress ends first: progress that follows a
// Retry would undo its delay.
func (d *delivery) answer(ctx context.Context, word []byte, silent bool) error {
	if err := d.sure(ctx); err != nil {
		return err
	}
	if silent {
		d.s.letGo(d)
	}
	if err := d.s.conn.ask(ctx, d.s.nc, d.s.queue.Ended(), d.reply, word); err != nil {
		return fmt.Errorf("natsidem: the server has not confirmed it; the message may come again: %w", because(d.s.nc, d.reply, err))
	}
	return nil
}

// within runs a step with the whole timeout.
func (d *delivery) within(ctx context.Context, step func(context.Context) error) error {
	ctx, end := context.WithTimeout(ctx, d.s.o.Timeout)
	defer end()
	return step(ctx)
}

// sure waits until answers reach the consumer that has delivered the message.
func (d *delivery) sure(ctx context.Context) error {
	if _, err := d.s.conn.await(ctx, d.s.nc, d.s.queue.Ended()); err != nil {
		return fmt.Errorf("natsidem: not settled: %w", err)
	}
	return nil
}
