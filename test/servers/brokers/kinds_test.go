package brokers_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// source is a consumer of a queue.
type source interface {
	mqidem.Source
	Close() error
}

// kind says how to use a broker, given only its URL, so that other processes can use it too.
type kind struct {
	open        func(ctx context.Context, url string) (source, error)
	publisher   func(ctx context.Context, url string) (outbox.Publisher, error)
	deadLetters func(ctx context.Context, url string) (mqidem.DeadLetters, io.Closer, error)
	// start starts the server. open must declare the queue first.
	start func(t *testing.T) *broker
	// life is how long a consumer lives at most before it is killed; default 5 s.
	life time.Duration
	// rest is how long a new queue is left alone before the first message is published.
	rest time.Duration
}

// broker is a server that the test disturbs.
type broker struct {
	url string
	// cut ends its connections; restart kills it and starts it on its data. Each may be nil.
	cut func()
	// state returns what it knows of the queue and its consumers; may be nil.
	state   func(ctx context.Context) string
	restart func(t *testing.T)
	// again says that the long form restarts it again and again.
	again bool
}

// queue is the name of the one queue, stream or topic.
const queue = "work"

var quiet = slog.New(slog.DiscardHandler)

var kinds = map[string]kind{
	"RabbitMQ": {
		open: func(ctx context.Context, url string) (source, error) {
			return amqpidem.Open(ctx, url, queue, rabbitOptions())
		},
		publisher: func(ctx context.Context, url string) (outbox.Publisher, error) {
			return amqpidem.NewPublisher(ctx, url, &amqpidem.PublisherOptions{Dialing: amqpidem.Dialing{Logger: quiet}})
		},
		deadLetters: func(ctx context.Context, url string) (mqidem.DeadLetters, io.Closer, error) {
			p, err := amqpidem.OpenDeadLetters(ctx, url, queue, rabbitOptions())
			return p, p, err
		},
		// RabbitMQ 3.10 takes about a second to store a new quorum queue. If it is killed before,
		// it loses the messages of that queue.
		rest: 5 * time.Second,
		start: func(t *testing.T) *broker {
			t.Helper()
			server := servertest.StartRabbitMQ(t)
			p := servertest.StartProxy(t, server.Addr)
			return &broker{url: strings.Replace(server.VHost(t), server.Addr, p.Addr, 1), cut: p.Break, restart: func(t *testing.T) {
				t.Helper()
				server.Kill()
				server.Restart(t)
			}}
		},
	},
}

func rabbitOptions() *amqpidem.Options {
	return &amqpidem.Options{
		Quorum: true, Prefetch: 32, Delays: []time.Duration{100 * time.Millisecond, time.Second}, Dialing: amqpidem.Dialing{Logger: quiet},
	}
}
