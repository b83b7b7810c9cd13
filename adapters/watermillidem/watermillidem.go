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

// Deduplicator suppresses duplicates of messages. Its fields must not be changed after the first
// use. It can be used concurrently.
type Deduplicator struct {
	// Engine stores the records, in the layer "mq". It is required.
	Engine *retrysafe.Engine
	// Name is the name of the consumer, a part of the key: consumers with different names do not
	// suppress each other. Empty means the name of the router's handler.
	Name string
	// KeyFactory returns the id of a message and its duplicates; nil means its UUID. Watermill's
	// hashers work; a hash of few bits takes different messages for one.
	KeyFactory func(*message.Message) (string, error)
	// Options are options of the calls of the engine. The policy for an outcome in doubt is
	// retrysafe.Reexecute unless they say otherwise. A duplicate waits 10 s for a first run in
	// progress, since a broker redelivers at once after a nack.
	Options []retrysafe.CallOption
}

// waitForFirst is how long a duplicate waits for a first run in progress.
const waitForFirst = 10 * time.Second

// Middleware is a message.HandlerMiddleware. A duplicate of a finished message returns the messages
// that the handler produced: they are published again, with the same UUIDs.
//
// If h fails, the key is released and the error returned, so Watermill's own retry and poison queue
// work as usual. An error of retrysafe.Permanent is stored, and duplicates get it too.
//
// If the produced messages are together larger than Policy.MaxAnswer, they are returned once and
// not stored. A duplicate runs nothing and gets an error that wraps retrysafe.ErrAnswerNotKept,
// since it is unknown whether they were published: check that, and ack the message.
//
// The work continues when the message's context is cancelled, like that of [retrysafe.Do].
// retrysafe.Attached among Options ends it.
func (d *Deduplicator) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		key, err := d.key(m, message.HandlerNameFromCtx(m.Context()))
		if err != nil {
			return nil, err
		}
		e := d.layerEngine()
		// A duplicate must publish what the first run produced, so only Replay is allowed.
		options := append(slices.Clone(d.Options), retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Replay}))
		res, err := retrysafe.Do(m.Context(), e, key, func(ctx context.Context) ([]producedMessage, error) {
			old := m.Context()
			m.SetContext(ctx)
			defer m.SetContext(old)
			made, err := h(m)
			if err != nil {
				return nil, err
			}
			return packMessages(made), nil
		}, options...)
		if errors.Is(err, retrysafe.ErrAnswerNotKept) {
			return nil, fmt.Errorf("watermillidem: this message was worked on, and what the handler produced was too large to be kept (Policy.MaxAnswer); "+
				"see whether it was published, and ack the message: %w", err)
		}
		if err != nil {
			return nil, err
		}
		return unpackMessages(res.Value), nil
	}
}

// PublisherDecorator is a message.PublisherDecorator. It drops and acks a message that was
// published to the same topic before. A message whose publication fails is not marked, and the
// messages after it are not published. Messages are published one by one.
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
	deduplicator *Deduplicator
}

// Publish implements message.Publisher.
func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		key, err := p.deduplicator.key(m, "publish")
		if err != nil {
			return err
		}
		key.Operation = retrysafe.KeyPart(key.Operation + " to " + topic)
		replayed, err := retrysafe.Run(m.Context(), p.deduplicator.layerEngine(), key, func(context.Context) error { return p.Publisher.Publish(topic, m) }, p.deduplicator.Options...)
		if err != nil {
			return err
		}
		if replayed {
			m.Ack()
		}
	}
	return nil
}

func (d *Deduplicator) layerEngine() *retrysafe.Engine {
	return d.Engine.Layer("mq").WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Wait: waitForFirst})
}

// key returns the key of a message's record.
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
