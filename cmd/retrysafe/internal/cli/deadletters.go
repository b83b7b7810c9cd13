package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
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
			return nil, nil, notOpened(err, queue)
		}
		return p, func() { _ = p.Close() }, nil
	case "nats", "tls":
		return natsDeadLetters(ctx, broker, queue, log)
	case "redis", "rediss", "redis-sentinel", "redis-cluster":
		return redisDeadLetters(ctx, broker, queue, log)
	}
	return nil, nil, &usageError{fmt.Errorf("--broker %s://…: write %s", u.Scheme, brokersHelp)}
}

// notOpened returns the error of a dead-letter queue that was not opened. Where a package advises
// what to write in Go, it names the flag instead.
func notOpened(err error, queue string) error {
	switch {
	case errors.Is(err, amqpidem.ErrMissing), errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("check --queue: the broker has no dead letters of %q; the consumer makes the place for them when it starts", queue)
	case errors.Is(err, amqpidem.ErrDenied):
		return fmt.Errorf("check --broker: its user may not read the dead letters of %q; grant it, or name a user who may", queue)
	}
	return err
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
		if p, err = natsidem.OpenDeadLetters(ctx, js, &natsidem.Options{Stream: stream, Consumer: consumer, Logger: log}); err == nil {
			return p, nc.Close, nil
		}
	}
	nc.Close()
	return nil, nil, notOpened(err, queue)
}

func redisDeadLetters(ctx context.Context, broker, queue string, log *slog.Logger) (mqidem.DeadLetters, func(), error) {
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
	p, err := redisstreamidem.NewDeadLetters(client, &redisstreamidem.Options{Stream: stream, Group: group, Logger: log})
	if err == nil {
		err = hasGroup(ctx, p, stream, group)
	}
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return p, func() { _ = client.Close() }, nil
}

// hasGroup returns an error if the stream has groups, and not this one. The groups of a stream
// share its dead letters, so those of another one would be shown. A stream that is gone may have
// dead letters, and a server that does not tell says more when they are read.
func hasGroup(ctx context.Context, p *redisstreamidem.DeadLetters, stream, group string) error {
	groups, err := p.Groups(ctx)
	if err != nil || len(groups) == 0 || slices.Contains(groups, group) {
		return nil //nolint:nilerr // as above
	}
	shown := make([]string, len(groups))
	for i := range groups {
		shown[i] = printable(groups[i])
	}
	return fmt.Errorf("check --queue: the stream %s has no group %q; its groups are %s", printable(stream), group, strings.Join(shown, ", "))
}
