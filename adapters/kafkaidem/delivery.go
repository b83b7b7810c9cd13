package kafkaidem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds.
type delivery struct {
	s *Source
	p *partition
	w *slot
	m *mqidem.Message

	mu      sync.Mutex
	settled bool
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. It does not wait for the commit, which covers all messages
// settled meanwhile and is retried until it succeeds. Messages that were acked just before a crash
// are delivered again.
func (d *delivery) Ack(context.Context) error {
	return d.settle(nil, func() { d.p.done(d.w) })
}

// Retry implements mqidem.Delivery. The record waits in this process, and so does its partition
// unless Options.Unordered is set.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle(ctx.Err, func() {
		d.w.due = time.Now().Add(after)
		d.p.waits = append(d.p.waits, d.w)
	})
}

// Dead implements mqidem.Delivery.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(func() error { return d.s.deadLetters.add(ctx, d.m, why) }, func() { d.p.done(d.w) })
}

// settle calls first, then settles the delivery and calls then.
func (d *delivery) settle(first func() error, then func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return mqidem.ErrSettled
	}
	if d.stale() {
		return fmt.Errorf("kafkaidem: not settled: %w", mqidem.ErrStale)
	}
	if first != nil {
		if err := first(); err != nil {
			return fmt.Errorf("kafkaidem: not settled; the message stays in hand: %w", err)
		}
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.p.lost {
		return fmt.Errorf("kafkaidem: not settled: %w", mqidem.ErrStale)
	}
	d.settled = true
	d.p.busy--
	then()
	d.s.tell()
	d.s.markDirty()
	return nil
}

// stale reports whether this consumer has lost the partition.
func (d *delivery) stale() bool {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.p.lost || d.s.closed()
}
