package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
)

// The topic of the messages, and the queues that receive them.
const (
	topic       = "orders"
	stockQueue  = "orders.stock"
	pointsQueue = "orders.points"
)

// source is a consumer of a queue.
type source interface {
	mqidem.Source
	Close() error
}

// broker connects the parts.
type broker struct {
	publisher   outbox.Publisher
	open        func(ctx context.Context, queue string) (source, error)
	deadLetters func(ctx context.Context, queue string) (mqidem.DeadLetters, func(), error)
	close       func()
}

// newMemoryBroker returns a broker within this process.
func newMemoryBroker() *broker {
	b := memqueue.New()
	b.Bind(topic, stockQueue, pointsQueue)
	return &broker{
		publisher: b,
		open:      func(_ context.Context, queue string) (source, error) { return b.Open(queue), nil },
		deadLetters: func(_ context.Context, queue string) (mqidem.DeadLetters, func(), error) {
			return b.DeadLetters(queue), func() {}, nil
		},
		close: func() { _ = b.Close() },
	}
}

// exchange is the exchange that RabbitMQ gets the messages on.
const exchange = "orders"

// openRabbitMQ connects to a RabbitMQ, with an exchange that sends each message to both queues.
func openRabbitMQ(ctx context.Context, url string) (*broker, error) {
	options := func() *amqpidem.Options {
		return &amqpidem.Options{
			Quorum: true, Prefetch: 64, Exchange: exchange, Bindings: []string{topic},
			Delays: []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second},
		}
	}
	for _, queue := range []string{stockQueue, pointsQueue} {
		if err := amqpidem.Declare(ctx, url, queue, options()); err != nil {
			return nil, err
		}
	}
	p, err := amqpidem.NewPublisher(ctx, url, &amqpidem.PublisherOptions{Exchange: exchange})
	if err != nil {
		return nil, err
	}
	return &broker{
		publisher: p,
		open: func(ctx context.Context, queue string) (source, error) {
			return amqpidem.Open(ctx, url, queue, options())
		},
		deadLetters: func(ctx context.Context, queue string) (mqidem.DeadLetters, func(), error) {
			p, err := amqpidem.OpenDeadLetters(ctx, url, queue, options())
			if err != nil {
				return nil, nil, err
			}
			return p, func() { _ = p.Close() }, nil
		},
		close: func() { _ = p.Close() },
	}, nil
}

// repeatingPublisher publishes every third message twice, like a producer that has lost the
// confirmation of the first.
type repeatingPublisher struct{ outbox.Publisher }

func (f repeatingPublisher) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	var again []outbox.Outgoing
	for i := range batch {
		if rand.IntN(3) == 0 {
			again = append(again, batch[i])
		}
	}
	if len(again) > 0 {
		f.Publisher.Publish(ctx, again) // its result is ignored
	}
	return f.Publisher.Publish(ctx, batch)
}
