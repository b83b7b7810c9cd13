package amqpidem

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// PublisherOptions are for [NewPublisher]; nil is valid.
type PublisherOptions struct {
	// Exchange is where messages go, with their Topic as routing key; it must exist. Default: the
	// default exchange, where a Topic is the name of a queue.
	Exchange string
	// OneByOne publishes a message when the one before it was confirmed. This keeps the order of a
	// key within a batch, and the relay hands over several messages of one key at once. The
	// throughput is one round trip to the broker's disk after the other.
	OneByOne bool
	// Timeout limits each wait for the broker: to connect, to send a message, to get the next
	// confirmation of a batch. Default 10 s.
	Timeout time.Duration
	// Dialing says how to reach the broker.
	Dialing
}

// Publisher publishes for a relay of package outbox. Its messages are persistent, must reach a
// queue, and are confirmed by the broker. It replaces a lost connection at the next batch. It can
// be used concurrently.
type Publisher struct {
	o      PublisherOptions
	sender *sender
}

var _ outbox.Ordered = (*Publisher)(nil)

// NewPublisher connects. It returns an error if the broker is unreachable or the exchange is
// missing. Call Close at the end.
func NewPublisher(ctx context.Context, url string, o *PublisherOptions) (*Publisher, error) {
	p := &Publisher{}
	if o != nil {
		p.o = *o
	}
	p.o.Timeout = cmp.Or(p.o.Timeout, defaultPublishTimeout)
	p.o.setDefaults()
	if p.o.Timeout < 0 {
		return nil, fmt.Errorf("amqpidem: PublisherOptions.Timeout is %v; it must be more than zero", p.o.Timeout)
	}
	if err := checkExchangeName(p.o.Exchange); err != nil {
		return nil, err
	}
	d, err := newDialer(url, p.o.Dialing)
	if err != nil {
		return nil, err
	}
	p.sender = newSender(d, p.o.Timeout, p.verifyExchange)
	if _, err := p.sender.getConn(ctx); err != nil {
		p.sender.close()
		return nil, err
	}
	return p, nil
}

// verifyExchange checks that the exchange exists.
func (p *Publisher) verifyExchange(l *link) error {
	if p.o.Exchange == "" {
		return nil
	}
	err := l.limitTime(p.o.Timeout, func() error {
		return l.channel.ExchangeDeclarePassive(p.o.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("amqpidem: the exchange %q cannot be used; nothing was published: declare it, with Declare and Options.Exchange or otherwise, "+
		"and grant the permission to write to it: %w", p.o.Exchange, err)
}

// KeepsOrder implements [outbox.Ordered].
func (p *Publisher) KeepsOrder() bool { return p.o.OneByOne }

// Publish implements [outbox.Publisher].
func (p *Publisher) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	if p.o.OneByOne {
		return outbox.OneByOne(p.publishOne).Publish(ctx, batch)
	}
	errs := make([]error, len(batch))
	o, err := p.connect(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	under := make([]*publishing, len(batch))
	first := map[string]int{}
	for i := range batch {
		under[i] = p.publishingOf(&batch[i])
		// If the batch has one message twice, the second waits for the first, whose confirmation is
		// otherwise only received below.
		name := under[i].inFlightName()
		if j, twice := first[name]; twice && under[j] != nil {
			soon := time.NewTimer(p.o.Timeout)
			errs[j] = relayError(o.awaitConfirm(ctx, under[j], soon.C))
			soon.Stop()
			under[j] = nil
		}
		first[name] = i
		if err := o.enqueue(ctx, under[i]); err != nil {
			under[i], errs[i] = nil, relayError(err)
			if err.outcome == outcomeTooLarge {
				continue
			}
			for j := i + 1; j < len(batch); j++ {
				errs[j] = errs[i]
			}
			break
		}
	}
	late := time.NewTimer(p.o.Timeout)
	defer late.Stop()
	over := late.C
	for i, m := range under {
		if m == nil {
			continue
		}
		err := o.awaitConfirm(ctx, m, over)
		switch {
		case err == nil:
			late.Reset(p.o.Timeout)
		case err.outcome == outcomeUnknown && !o.hasEnded():
			// the others may be confirmed, but there is no time left to wait; if the connection has
			// ended, the outcome of all is known soon
			over = firedTimer
		}
		errs[i] = relayError(err)
	}
	return errs
}

// firedTimer is a timer that has fired.
var firedTimer = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// connect returns a connection for publishing.
func (p *Publisher) connect(ctx context.Context) (*publisherConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, outbox.Unavailable(err)
	}
	o, err := p.sender.getConn(ctx)
	return o, outbox.Unavailable(err)
}

// publishOne publishes a single message.
func (p *Publisher) publishOne(ctx context.Context, m outbox.Outgoing) error {
	err := p.sender.publish(ctx, p.publishingOf(&m))
	var e *publishError
	if errors.As(err, &e) {
		return relayError(e)
	}
	return outbox.Unavailable(err)
}

// publishingOf returns the message for the broker. It copies the content: if the context of a call
// ends, the goroutine that writes still uses it.
func (p *Publisher) publishingOf(m *outbox.Outgoing) *publishing {
	out := amqp.Publishing{
		Headers: make(amqp.Table, len(m.Headers)+1), ContentType: m.ContentType, DeliveryMode: amqp.Persistent, Timestamp: amqpTime(m.Added), Body: bytes.Clone(m.Payload),
	}
	for name, value := range m.Headers {
		out.Headers[name] = value
	}
	if m.Key != "" {
		out.Headers[mqidem.HeaderKey] = m.Key
	}
	setMessageID(&out, m.ID)
	return newPublishing(p.o.Exchange, m.Topic, out)
}

// relayError turns an error into one for the relay.
func relayError(err *publishError) error {
	switch {
	case err == nil:
		return nil
	case err.outcome == outcomeTooLarge:
		return outbox.Permanent(err)
	case err.outcome == outcomeReturned || err.outcome == outcomeNacked:
		return err
	case err.outcome == outcomeRefused && strings.Contains(err.Error(), "access to topic"):
		// the routing key is refused, not the exchange
		return err
	}
	return outbox.Unavailable(err)
}

// Close ends the connection. Publications in flight get an unknown outcome.
func (p *Publisher) Close() error {
	p.sender.close()
	return nil
}
