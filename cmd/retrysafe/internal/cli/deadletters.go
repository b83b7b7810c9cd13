package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
)

const brokersHelp = "amqp://HOST/VHOST with the name of the queue, nats://HOST with STREAM/CONSUMER, redis://HOST with STREAM/GROUP"

// openDeadLetters opens the dead-letter queue of a queue. A URL may have a password, so errors do
// not show it.
func openDeadLetters(ctx context.Context, broker, queue string, log *slog.Logger) (d DeadLetters, err error) {
	if broker == "" || queue == "" {
		return d, &usageError{errors.New("--broker (or RETRYSAFE_BROKER) and --queue say where the dead messages are: " + brokersHelp)}
	}
	u, err := url.Parse(broker)
	if err != nil {
		return d, &usageError{errors.New("--broker is no URL; write " + brokersHelp)}
	}
	switch u.Scheme {
	case "amqp", "amqps":
		if drivers.DeadLettersOfAMQP == nil {
			return d, notLinked("a client of RabbitMQ")
		}
		return drivers.DeadLettersOfAMQP(ctx, broker, queue, log)
	case "nats", "tls":
		stream, consumer, err := splitQueueName(queue, "consumer")
		if err != nil {
			return d, err
		}
		if drivers.DeadLettersOfNATS == nil {
			return d, notLinked("a client of NATS")
		}
		return drivers.DeadLettersOfNATS(ctx, broker, stream, consumer, log)
	case "redis", "rediss", "redis-sentinel", "redis-cluster":
		stream, group, err := splitQueueName(queue, "group")
		if err != nil {
			return d, err
		}
		address, err := redisclient.ParseURL(broker)
		if err != nil {
			return d, &usageError{fmt.Errorf("--broker: %w", err)}
		}
		if drivers.DeadLettersOfRedis == nil {
			return d, notLinked("a client of Redis")
		}
		return drivers.DeadLettersOfRedis(ctx, address, stream, group, log)
	}
	return d, &usageError{fmt.Errorf("--broker %s://…: write %s", u.Scheme, brokersHelp)}
}

// splitQueueName splits "stream/consumer".
func splitQueueName(queue, second string) (string, string, error) {
	stream, name, ok := strings.Cut(queue, "/")
	if !ok || stream == "" || name == "" {
		return "", "", &usageError{fmt.Errorf("--queue %q: write the stream and the %s, like orders/stock", queue, second)}
	}
	return stream, name, nil
}
