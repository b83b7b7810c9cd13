package natsidem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// What the server is told of a message.
var (
	ack        = []byte("+ACK")
	nak        = []byte("-NAK")
	inProgress = []byte("+WPI")
)

// delivery is a message in the hands of a consumer.
type delivery struct {
	s     *Source
	m     *mqidem.Message
	reply string // where the server is told of it

	mu      sync.Mutex
	settled bool
	parked  bool // and not known to be acked
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. It returns when the server has confirmed it: an ack that got lost
// would be a second run of the work where no record is kept.
func (d *delivery) Ack(ctx context.Context) error { return d.settle(ctx, nil, ack) }

// Retry implements mqidem.Delivery: the server keeps the message and the time. A server that was
// restarted on its files may deliver up to a second early, since it writes whole seconds.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	if after <= 0 {
		return d.settle(ctx, nil, nak)
	}
	return d.settle(ctx, nil, fmt.Appendf(nil, `-NAK {"delay": %d}`, after.Nanoseconds()))
}

// Dead implements mqidem.Delivery. Where the message was parked and its ack has failed, one more
// call only acks.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(ctx, func(ctx context.Context) error { return d.s.parking.park(ctx, d.m, why) }, ack)
}

// settle does what comes first, tells the server, and waits for its answer; each has the timeout
// for itself. After an error of an Ack or a Retry the message comes again when AckWait has passed,
// since the server is told no more that it is in work; until then it may be settled after all. What
// is to be parked stays in the caller's hands until that is done and acked, and the caller tries
// again.
func (d *delivery) settle(ctx context.Context, first func(context.Context) error, word []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return mqidem.ErrSettled
	}
	if first == nil {
		defer d.s.letGo(d)
	} else if !d.parked {
		if err := d.within(ctx, func(ctx context.Context) error {
			if err := d.sure(ctx); err != nil {
				return err
			}
			return first(ctx)
		}); err != nil {
			return err
		}
		d.parked = true
	}
	err := d.within(ctx, func(ctx context.Context) error {
		if err := d.sure(ctx); err != nil {
			return err
		}
		if first == nil {
			d.s.letGo(d) // before the word: one that follows a Retry would undo its delay
		}
		if err := d.s.conn.ask(ctx, d.s.nc, d.s.ended, d.reply, word); err != nil {
			return fmt.Errorf("natsidem: the server has not confirmed it; the message may come again: %w", because(d.s.nc, d.reply, err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.settled = true
	d.s.letGo(d)
	return nil
}

// within runs a step with the timeout for itself.
func (d *delivery) within(ctx context.Context, step func(context.Context) error) error {
	ctx, end := context.WithTimeout(ctx, d.s.o.Timeout)
	defer end()
	return step(ctx)
}

// sure waits until what is said reaches the consumer that has delivered it.
func (d *delivery) sure(ctx context.Context) error {
	if _, err := d.s.conn.await(ctx, d.s.nc, d.s.ended); err != nil {
		return fmt.Errorf("natsidem: not settled: %w", err)
	}
	return nil
}
