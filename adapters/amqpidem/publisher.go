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
	o   PublisherOptions
	out *sender
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
	p.o.fill()
	if p.o.Timeout < 0 {
		return nil, fmt.Errorf("amqpidem: PublisherOptions.Timeout is %v; it must be more than zero", p.o.Timeout)
	}
	if err := checkExchange(p.o.Exchange); err != nil {
		return nil, err
	}
	d, err := newDialer(url, p.o.Dialing)
	if err != nil {
		return nil, err
	}
	p.out = newSender(d, p.o.Timeout, p.ready)
	if _, err := p.out.conn(ctx); err != nil {
		p.out.close()
		return nil, err
	}
	return p, nil
}

// ready checks that the exchange exists.
func (p *Publisher) ready(l *link) error {
	if p.o.Exchange == "" {
		return nil
	}
	err := l.within(p.o.Timeout, func() error {
		return l.ch.ExchangeDeclarePassive(p.o.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
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
		return outbox.OneByOne(p.one).Publish(ctx, batch)
	}
	errs := make([]error, len(batch))
	o, err := p.open(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	under := make([]*publishing, len(batch))
	first := map[string]int{}
	for i := range batch {
		under[i] = p.message(&batch[i])
		// If the batch has one message twice, the second waits for the first, whose confirmation is
		// otherwise only received below.
		name := under[i].name()
		if j, twice := first[name]; twice && under[j] != nil {
			soon := time.NewTimer(p.o.Timeout)
			errs[j] = sorted(o.await(ctx, under[j], soon.C))
			soon.Stop()
			under[j] = nil
		}
		first[name] = i
		if err := o.enqueue(ctx, under[i]); err != nil {
			under[i], errs[i] = nil, sorted(err)
			if err.kind == tooLarge {
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
		err := o.await(ctx, m, over)
		switch {
		case err == nil:
			late.Reset(p.o.Timeout)
		case err.kind == unknown && !o.ended():
			// the others may be confirmed, but there is no time left to wait; if the connection has
			// ended, the outcome of all is known soon
			over = passed
		}
		errs[i] = sorted(err)
	}
	return errs
}

// passed is a timer that has fired.
var passed = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// open returns a connection for publishing.
func (p *Publisher) open(ctx context.Context) (*publisherConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, outbox.Unavailable(err)
	}
	o, err := p.out.conn(ctx)
	return o, outbox.Unavailable(err)
}

// one publishes a single message.
func (p *Publisher) one(ctx context.Context, m outbox.Outgoing) error {
	err := p.out.publish(ctx, p.message(&m))
	var e *publishError
	if errors.As(err, &e) {
		return sorted(e)
	}
	return outbox.Unavailable(err)
}

// message returns the message for the broker. It copies the content: if the context of a call ends,
// the goroutine that writes still uses it.
func (p *Publisher) message(m *outbox.Outgoing) *publishing {
	out := amqp.Publishing{
		Headers: make(amqp.Table, len(m.Headers)+1), ContentType: m.ContentType, DeliveryMode: amqp.Persistent, Timestamp: seconds(m.Added), Body: bytes.Clone(m.Payload),
	}
	for name, value := range m.Headers {
		out.Headers[name] = value
	}
	if m.Key != "" {
		out.Headers[mqidem.HeaderKey] = m.Key
	}
	identify(&out, m.ID)
	return newPublishing(p.o.Exchange, m.Topic, out)
}

// sorted turns an error into one for the relay.
func sorted(err *publishError) error {
	switch {
	case err == nil:
		return nil
	case err.kind == tooLarge:
		return outbox.Permanent(err)
	case err.kind == returned || err.kind == nacked:
		return err
	case err.kind == refused && strings.Contains(err.Error(), "access to topic"):
		// the routing key is refused, not the exchange
		return err
	}
	return outbox.Unavailable(err)
}

// Close ends the connection. Publications in flight get an unknown outcome.
func (p *Publisher) Close() error {
	p.out.close()
	return nil
}
