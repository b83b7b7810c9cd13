package watermillidem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/retrysafe/retrysafe"
)

// Deduplicator suppresses repeats of messages. Its fields must not be changed once it is used; it
// may be used concurrently.
type Deduplicator struct {
	// Engine keeps the records, in the layer "mq". It is required.
	Engine *retrysafe.Engine
	// Name is the consumer's, part of the key: consumers with different names do not suppress each
	// other. Empty: the name of the router's handler.
	Name string
	// KeyFactory says what a message's repeats are known by; nil: its UUID. Watermill's hashers
	// fit; those of few bits take different messages for one.
	KeyFactory func(*message.Message) (string, error)
	// Options change the calls of the engine. The policy on doubt is retrysafe.Reexecute unless
	// they say otherwise, and a repeat waits 10 s for a first run that is under way, since a broker
	// that is told no delivers again at once.
	Options []retrysafe.CallOption
}

// waitForFirst is how long a repeat waits while the first run is under way.
const waitForFirst = 10 * time.Second

// Middleware is a message.HandlerMiddleware. A repeat of what was done returns the messages that
// the handler produced then: they are published again, under the UUIDs that they had.
//
// Where h fails the key is given back and the error returned, so that Watermill's own retry and
// poison queue go on as they do; one of retrysafe.Permanent is kept, and repeats get it too.
//
// Messages produced that are together larger than Policy.MaxAnswer are returned once, and are not
// kept. A repeat runs nothing and gets an error that wraps retrysafe.ErrAnswerNotKept, since nobody
// knows whether they were published: look, and ack it.
//
// The work goes on when the message's context is cancelled, as that of [retrysafe.Do] does;
// retrysafe.Attached among Options ends it.
func (d *Deduplicator) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		key, err := d.key(m, message.HandlerNameFromCtx(m.Context()))
		if err != nil {
			return nil, err
		}
		e := d.engine()
		// A repeat publishes what the first run made: nothing else than that may be told.
		options := append(slices.Clone(d.Options), retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Replay}))
		res, err := retrysafe.Do(m.Context(), e, key, func(ctx context.Context) ([]produced, error) {
			old := m.Context()
			m.SetContext(ctx)
			defer m.SetContext(old)
			made, err := h(m)
			if err != nil {
				return nil, err
			}
			return pack(made), nil
		}, options...)
		if errors.Is(err, retrysafe.ErrAnswerNotKept) {
			return nil, fmt.Errorf("watermillidem: this message was worked on, and what the handler produced was too large to be kept (Policy.MaxAnswer); "+
				"see whether it was published, and ack the message: %w", err)
		}
		if err != nil {
			return nil, err
		}
		return unpack(res.Value), nil
	}
}

// PublisherDecorator is a message.PublisherDecorator: a message that was published before, to the
// same topic, is dropped, and acked. One whose publication fails is not marked, and an error of one
// leaves those behind it unpublished. Messages are published one by one.
func (d *Deduplicator) PublisherDecorator() message.PublisherDecorator {
	return func(p message.Publisher) (message.Publisher, error) {
		if p == nil {
			return nil, errors.New("watermillidem: there is no publisher to decorate")
		}
		return &publisher{p, d}, nil
	}
}

type publisher struct {
	message.Publisher
	d *Deduplicator
}

// Publish implements message.Publisher.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		key, err := p.d.key(m, "publish")
		if err != nil {
			return err
		}
		key.Operation = retrysafe.KeyPart(key.Operation + " to " + topic)
		replayed, err := retrysafe.Run(m.Context(), p.d.engine(), key, func(context.Context) error { return p.Publisher.Publish(topic, m) }, p.d.Options...)
		if err != nil {
			return err
		}
		if replayed {
			m.Ack()
		}
	}
	return nil
}

func (d *Deduplicator) engine() *retrysafe.Engine {
	return d.Engine.Layer("mq").WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Wait: waitForFirst})
}

// key is that of a message's record.
func (d *Deduplicator) key(m *message.Message, name string) (retrysafe.Key, error) {
	if d.Engine == nil {
		return retrysafe.Key{}, errors.New("watermillidem: Deduplicator.Engine is required: it keeps what was done")
	}
	if d.Name != "" {
		name = d.Name
	}
	if name == "" {
		return retrysafe.Key{}, errors.New("watermillidem: the consumer has no name; set Deduplicator.Name, or use the middleware in a router")
	}
	id := m.UUID
	if d.KeyFactory != nil {
		var err error
		if id, err = d.KeyFactory(m); err != nil {
			return retrysafe.Key{}, fmt.Errorf("watermillidem: the id of a message could not be made: %w", err)
		}
	}
	return retrysafe.Key{Operation: retrysafe.KeyPart(name), ID: retrysafe.KeyPart(id)}, nil
}
