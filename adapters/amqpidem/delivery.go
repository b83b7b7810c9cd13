package amqpidem

import (
	"context"
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
	raw     amqp.Delivery
	message mqidem.Message
	state   *mqidem.Settlement
}

func newDelivery(s *Source, l *link, raw amqp.Delivery) *delivery {
	d := &delivery{source: s, link: l, raw: raw}
	d.message = readMessage(&d.raw, s.settings.queue)
	l.acks.addTag(raw.DeliveryTag)
	d.state = mqidem.NewSettlement(s.settings.giveBackTime(), d.giveBack)
	return d
}

// Message implements [mqidem.Delivery].
func (d *delivery) Message() *mqidem.Message { return &d.message }

// Ack implements [mqidem.Delivery]. RabbitMQ does not answer an ack: if it is lost, the message is
// redelivered.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settleOnce(ctx, nil)
}

// Retry implements [mqidem.Delivery].
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settleOnce(ctx, func(ctx context.Context) error {
		p := republishCopy(&d.raw, d.source.dialer.user)
		p.Headers[mqidem.HeaderTries] = strconv.Itoa(countTries(d.raw.Headers) + 1)
		return d.source.sender.publish(ctx, newPublishing("", d.source.settings.retryQueue(after), p))
	})
}

// Dead implements [mqidem.Delivery].
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settleOnce(ctx, func(ctx context.Context) error {
		return mqidem.Fit(&d.message, why, isTooLarge, func(m *mqidem.Message, packed []byte) error {
			p := republishCopy(&d.raw, d.source.dialer.user)
			if m != &d.message { // a part of it
				p = amqp.Publishing{Headers: amqp.Table{}, DeliveryMode: amqp.Persistent, ContentType: m.ContentType, Body: m.Body}
				if m.Key != "" {
					p.Headers[mqidem.HeaderKey] = m.Key
				}
				setMessageID(&p, m.ID)
			}
			delete(p.Headers, mqidem.HeaderTries) // a redriven message starts again
			p.Headers[mqidem.HeaderDead] = string(packed)
			return d.source.sender.publish(ctx, newPublishing("", d.source.settings.deadLetterQueue(), p))
		})
	})
}

// settleOnce writes the copy, if there is one, and acks.
func (d *delivery) settleOnce(ctx context.Context, write func(context.Context) error) error {
	return d.state.Settle(ctx, mqidem.SettleSteps{Check: d.checkLink, Write: write, Answer: func(context.Context) error {
		if err := d.link.acks.ack(d.raw.DeliveryTag); err != nil {
			return err
		}
		d.link.heldDeliveries.Add(-1)
		return nil
	}})
}

// checkLink returns an error if the connection of the delivery is gone.
func (d *delivery) checkLink(context.Context) error {
	if d.link.hasEnded() || d.source.lifeCtx.Err() != nil {
		return mqidem.ErrStale
	}
	return nil
}

// giveBack makes the broker redeliver a message that the consumer could not settle and has
// abandoned. Otherwise such messages could in the end be all that the consumer may hold.
func (d *delivery) giveBack() {
	if d.checkLink(context.Background()) != nil {
		return
	}
	d.link.heldDeliveries.Add(-1)
	d.link.acks.requeue(d.raw.DeliveryTag)
}
