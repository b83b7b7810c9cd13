package kafkaidem

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds.
type delivery struct {
	s *Source
	p *partition
	w *slot
	m *mqidem.Message

	state *mqidem.Settlement
}

func newDelivery(s *Source, p *partition, w *slot) *delivery {
	return &delivery{s: s, p: p, w: w, m: message(w.r, w.deliveries), state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. It does not wait for the commit, which covers all messages
// settled meanwhile and is retried until it succeeds. Messages that were acked just before a crash
// are delivered again.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(context.WithoutCancel(ctx), nil, func() { d.p.done(d.w) })
}

// Retry implements mqidem.Delivery. The record waits in this process, and so does its partition
// unless Options.Unordered is set.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle(ctx, nil, func() {
		d.w.due = time.Now().Add(after)
		d.p.waits = append(d.p.waits, d.w)
	})
}

// Dead implements mqidem.Delivery.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	write := func(ctx context.Context) error {
		if err := d.s.deadLetters.add(ctx, d.m, why); err != nil {
			return fmt.Errorf("kafkaidem: not settled; the message stays with this consumer: %w", err)
		}
		return nil
	}
	return d.settle(ctx, write, func() { d.p.done(d.w) })
}

// settle writes the dead letter, if there is one, and then settles the record in its partition.
func (d *delivery) settle(ctx context.Context, write func(context.Context) error, then func()) error {
	return d.state.Settle(ctx, mqidem.SettleSteps{
		Check: d.sure,
		Write: write,
		Answer: func(context.Context) error {
			d.s.mu.Lock()
			defer d.s.mu.Unlock()
			if d.p.lost {
				return errLost
			}
			d.p.busy--
			then()
			d.s.wake()
			d.s.markDirty()
			return nil
		},
	})
}

var errLost = fmt.Errorf("kafkaidem: not settled: %w", mqidem.ErrStale)

// sure returns an error if this consumer has lost the partition.
func (d *delivery) sure(context.Context) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.p.lost || d.s.closed() {
		return errLost
	}
	return nil
}
