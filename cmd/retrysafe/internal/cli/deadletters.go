package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
)

const brokersHelp = "amqp://HOST/VHOST with the name of the queue, nats://HOST with STREAM/CONSUMER, redis://HOST with STREAM/GROUP"

// openDeadLetters opens the dead-letter queue of a queue. A URL may have a password, so errors do
// not show it.
func openDeadLetters(ctx context.Context, broker, queue string, log *slog.Logger) (mqidem.DeadLetters, func(), error) {
	if broker == "" || queue == "" {
		return nil, nil, &usageError{errors.New("--broker (or RETRYSAFE_BROKER) and --queue say where the dead messages are: " + brokersHelp)}
	}
	u, err := url.Parse(broker)
	if err != nil {
		return nil, nil, &usageError{errors.New("--broker is no URL; write " + brokersHelp)}
	}
	switch u.Scheme {
	case "amqp", "amqps":
		p, err := amqpidem.OpenDeadLetters(ctx, broker, queue, &amqpidem.Options{Passive: true, Dialing: amqpidem.Dialing{Logger: log, Name: "retrysafe dlq"}})
		if err != nil {
			return nil, nil, err
		}
		return p, func() { _ = p.Close() }, nil
	case "nats", "tls":
		return natsDeadLetters(ctx, broker, queue, log)
	case "redis", "rediss", "redis-sentinel", "redis-cluster":
		return redisDeadLetters(broker, queue, log)
	}
	return nil, nil, &usageError{fmt.Errorf("--broker %s://…: write %s", u.Scheme, brokersHelp)}
}

// twoNames splits "stream/consumer".
func twoNames(queue, second string) (string, string, error) {
	stream, name, ok := strings.Cut(queue, "/")
	if !ok || stream == "" || name == "" {
		return "", "", &usageError{fmt.Errorf("--queue %q: write the stream and the %s, like orders/stock", queue, second)}
	}
	return stream, name, nil
}

func natsDeadLetters(ctx context.Context, broker, queue string, log *slog.Logger) (mqidem.DeadLetters, func(), error) {
	stream, consumer, err := twoNames(queue, "consumer")
	if err != nil {
		return nil, nil, err
	}
	nc, err := nats.Connect(broker, nats.MaxReconnects(-1), nats.Name("retrysafe dlq"))
	if err != nil {
		return nil, nil, fmt.Errorf("--broker: NATS is not reached: %w", err)
	}
	js, err := jetstream.New(nc)
	if err == nil {
		var p *natsidem.DeadLetters
		if p, err = natsidem.OpenDeadLetters(ctx, js, natsidem.Options{Stream: stream, Consumer: consumer, Logger: log}); err == nil {
			return p, nc.Close, nil
		}
	}
	nc.Close()
	return nil, nil, err
}

func redisDeadLetters(broker, queue string, log *slog.Logger) (mqidem.DeadLetters, func(), error) {
	stream, group, err := twoNames(queue, "group")
	if err != nil {
		return nil, nil, err
	}
	address, err := redisclient.ParseURL(broker)
	if err != nil {
		return nil, nil, &usageError{fmt.Errorf("--broker: %w", err)}
	}
	client, err := rueidisclient.Open(address)
	if err != nil {
		return nil, nil, fmt.Errorf("--broker: Redis is not reached: %w", err)
	}
	p, err := redisstreamidem.NewDeadLetters(client, redisstreamidem.Options{Stream: stream, Group: group, Logger: log})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return p, client.Close, nil
}
