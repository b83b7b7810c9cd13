package kafkaidem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message in the hands of a consumer.
type delivery struct {
	s *Source
	p *partition
	w *slot
	m *mqidem.Message

	mu      sync.Mutex
	settled bool
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. It does not wait for the commit, which covers all that was
// settled meanwhile, and is tried again until it succeeds: what is done in the last moment before a
// crash is delivered again.
func (d *delivery) Ack(context.Context) error {
	return d.settle(nil, func() { d.p.done(d.w) })
}

// Retry implements mqidem.Delivery. The record waits in this process; unless Options.Unordered is
// set, so does its partition.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle(ctx.Err, func() {
		d.w.due = time.Now().Add(after)
		d.p.waits = append(d.p.waits, d.w)
	})
}

// Dead implements mqidem.Delivery.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(func() error { return d.s.parking.park(ctx, d.m, why) }, func() { d.p.done(d.w) })
}

// settle does what comes first, and takes the delivery out of the caller's hands.
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

// stale tells whether the partition is this consumer's no more.
func (d *delivery) stale() bool {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.p.lost || d.s.closed()
}
