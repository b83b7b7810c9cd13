package amqpidem

import (
	"context"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds. It is settled on the link that it came from: on any
// other link its tag is another message's.
type delivery struct {
	source  *Source
	link    *link
	raw     *amqp.Delivery
	message *mqidem.Message
	turn    chan struct{} // holds a value while a call settles; guards the fields below
	settled bool
	given   bool        // back to the broker
	late    *time.Timer // gives it back
}

func newDelivery(s *Source, l *link, raw *amqp.Delivery) *delivery {
	return &delivery{source: s, link: l, raw: raw, message: read(raw, s.s.queue), turn: make(chan struct{}, 1)}
}

// Message implements [mqidem.Delivery].
func (d *delivery) Message() *mqidem.Message { return d.message }

// Ack implements [mqidem.Delivery]. RabbitMQ does not answer an ack: if it is lost, the message is
// redelivered.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, func() error { return nil })
}

// Retry implements [mqidem.Delivery].
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle(ctx, func() error {
		p := again(d.raw, d.source.d.user)
		p.Headers[mqidem.HeaderTries] = strconv.Itoa(tries(d.raw.Headers) + 1)
		return d.source.out.publish(ctx, newPublishing("", d.source.s.target(after), p))
	})
}

// Dead implements [mqidem.Delivery].
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(ctx, func() error {
		return mqidem.Fit(d.message, why, isTooLarge, func(m *mqidem.Message, packed []byte) error {
			p := again(d.raw, d.source.d.user)
			if m != d.message { // a part of it
				p = amqp.Publishing{Headers: amqp.Table{}, DeliveryMode: amqp.Persistent, ContentType: m.ContentType, Body: m.Body}
				if m.Key != "" {
					p.Headers[mqidem.HeaderKey] = m.Key
				}
				identify(&p, m.ID)
			}
			delete(p.Headers, mqidem.HeaderTries) // a redriven message starts again
			p.Headers[mqidem.HeaderDead] = string(packed)
			return d.source.out.publish(ctx, newPublishing("", d.source.s.deadLetterQueue(), p))
		})
	})
}

// settle calls first and acks.
func (d *delivery) settle(ctx context.Context, first func() error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotAsked, ctx.Err())
	}
	switch {
	case d.settled:
		return mqidem.ErrSettled
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errNotAsked, ctx.Err())
	case d.stale():
		return mqidem.ErrStale
	}
	if d.late != nil {
		d.late.Stop()
	}
	if err := first(); err != nil {
		d.late = time.AfterFunc(d.source.s.giveBack(), d.giveBack)
		return err
	}
	if err := d.link.within(writeTime, func() error { return d.link.ch.Ack(d.raw.DeliveryTag, false) }); err != nil {
		return fmt.Errorf("amqpidem: the ack was not sent: %w: %w", mqidem.ErrStale, err)
	}
	d.settled = true
	d.link.out.Add(-1)
	return nil
}

func (d *delivery) stale() bool { return d.given || d.link.ended() || d.source.life.Err() != nil }

// giveBack makes the broker redeliver a message that the consumer could not settle and has
// abandoned. Otherwise such messages could in the end be all that the consumer may hold.
func (d *delivery) giveBack() {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if d.settled || d.stale() {
		return
	}
	d.given = true
	d.link.out.Add(-1)
	_ = d.link.within(writeTime, func() error { return d.link.ch.Nack(d.raw.DeliveryTag, false, true) })
}
