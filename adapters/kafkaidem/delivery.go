package kafkaidem

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds.
type delivery struct {
	source    *Source
	partition *partition
	record    *handedRecord
	message   *mqidem.Message

	state *mqidem.Settlement
}

func newDelivery(s *Source, p *partition, w *handedRecord) *delivery {
	return &delivery{source: s, partition: p, record: w, message: messageOf(w.record, w.deliveries), state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.message }

// Ack implements mqidem.Delivery. It does not wait for the commit, which covers all messages
// settled meanwhile and is retried until it succeeds. Messages that were acked just before a crash
// are delivered again.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settleOnce(context.WithoutCancel(ctx), nil, func() { d.partition.settleRecord(d.record) })
}

// Retry implements mqidem.Delivery. The record waits in this process, and so does its partition
// unless Options.Unordered is set.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settleOnce(ctx, nil, func() {
		d.record.due = time.Now().Add(after)
		d.partition.laterTries = append(d.partition.laterTries, d.record)
	})
}

// Dead implements mqidem.Delivery.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	write := func(ctx context.Context) error {
		if err := d.source.deadLetters.addDeadLetter(ctx, d.message, why); err != nil {
			return fmt.Errorf("kafkaidem: not settled; the message stays with this consumer: %w", err)
		}
		return nil
	}
	return d.settleOnce(ctx, write, func() { d.partition.settleRecord(d.record) })
}

// settleOnce writes the dead letter, if there is one, and then settles the record in its partition.
func (d *delivery) settleOnce(ctx context.Context, write func(context.Context) error, then func()) error {
	return d.state.Settle(ctx, mqidem.SettleSteps{
		Check: d.checkOwned,
		Write: write,
		Answer: func(context.Context) error {
			d.source.mu.Lock()
			defer d.source.mu.Unlock()
			if !d.ownsPartition() {
				return errPartitionLost
			}
			d.partition.heldCount--
			then()
			d.source.wakeWaiters()
			d.source.requestCommit()
			return nil
		},
	})
}

var errPartitionLost = fmt.Errorf("kafkaidem: not settled: %w", mqidem.ErrStale)

// checkOwned returns an error if this consumer has lost the partition.
func (d *delivery) checkOwned(context.Context) error {
	d.source.mu.Lock()
	defer d.source.mu.Unlock()
	if !d.ownsPartition() || d.source.isClosed() {
		return errPartitionLost
	}
	return nil
}

// ownsPartition reports whether no other consumer can have the partition. The source's lock is
// held.
func (d *delivery) ownsPartition() bool {
	return !d.partition.lost && !d.source.membership.hasExpired()
}
