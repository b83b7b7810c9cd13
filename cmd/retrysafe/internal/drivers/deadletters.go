package drivers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/redisclient"
)

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

func amqpDeadLetters(ctx context.Context, url, queue string, log *slog.Logger) (d cli.DeadLetters, err error) {
	p, err := amqpidem.OpenDeadLetters(ctx, url, queue, &amqpidem.Options{Passive: true, Dialing: amqpidem.Dialing{Logger: log, Name: "retrysafe dlq"}})
	if err != nil {
		return d, notOpened(err, queue)
	}
	return cli.DeadLetters{DeadLetters: p, Close: func() { _ = p.Close() }}, nil
}

func natsDeadLetters(ctx context.Context, url, stream, consumer string, log *slog.Logger) (d cli.DeadLetters, err error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.Name("retrysafe dlq"))
	if err != nil {
		return d, fmt.Errorf("--broker: NATS is not reached: %w", err)
	}
	js, err := jetstream.New(nc)
	if err == nil {
		var p *natsidem.DeadLetters
		if p, err = natsidem.OpenDeadLetters(ctx, js, &natsidem.Options{Stream: stream, Consumer: consumer, Logger: log}); err == nil {
			return cli.DeadLetters{DeadLetters: p, Close: nc.Close}, nil
		}
	}
	nc.Close()
	return d, notOpened(err, stream+"/"+consumer)
}

func redisDeadLetters(ctx context.Context, a *redisclient.Address, stream, group string, log *slog.Logger) (d cli.DeadLetters, err error) {
	client, err := rueidisclient.Open(a)
	if err != nil {
		return d, fmt.Errorf("--broker: Redis is not reached: %w", err)
	}
	p, err := redisstreamidem.NewDeadLetters(client, &redisstreamidem.Options{Stream: stream, Group: group, Timeout: 30 * time.Second, Logger: log})
	if err == nil {
		err = hasGroup(ctx, p, stream, group)
	}
	if err != nil {
		_ = client.Close()
		return d, err
	}
	return cli.DeadLetters{DeadLetters: p, Close: func() { _ = client.Close() }}, nil
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
		shown[i] = cli.Printable(groups[i])
	}
	return fmt.Errorf("check --queue: the stream %s has no group %q; its groups are %s", cli.Printable(stream), group, strings.Join(shown, ", "))
}
