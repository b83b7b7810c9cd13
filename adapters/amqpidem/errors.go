package amqpidem

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	errURL    = errors.New("amqpidem: the URL cannot be read; write amqp://user:password@host:port/vhost, with reserved characters in percent-encoding")
	errClosed = errors.New("amqpidem: it was closed; nothing was published")
)

// The errors of the broker about a queue or an exchange that a program may have to tell from
// others.
var (
	// ErrMissing means that a queue or an exchange does not exist.
	ErrMissing = errors.New("amqpidem: a queue or an exchange does not exist")
	// ErrDenied means that the user has no permission for a queue or an exchange.
	ErrDenied = errors.New("amqpidem: the user has no permission for a queue or an exchange")
)

// brokerRefusal is an error of the broker about a queue or an exchange, with advice.
type brokerRefusal struct {
	kind, cause error
	text        string
}

func (r *brokerRefusal) Error() string   { return r.text + ": " + r.cause.Error() }
func (r *brokerRefusal) Unwrap() []error { return []error{r.kind, r.cause} }

// cannotConnect returns why there is no connection. It does not show the URL, which has a password.
func cannotConnect(ctx context.Context, err error) error {
	if ended := context.Cause(ctx); ended != nil {
		return fmt.Errorf("amqpidem: no connection to RabbitMQ in time; nothing was done; is it running, and reachable from here? %w", ended)
	}
	var refused *amqp.Error
	// If the broker just hangs up, the client guesses one of these two.
	guess := errors.Is(err, amqp.ErrCredentials) || errors.Is(err, amqp.ErrVhost)
	if guess || errors.As(err, &refused) && refused.Server {
		return fmt.Errorf("amqpidem: RabbitMQ refuses the connection; nothing was done; check the user, the password and the virtual host, and whether it is going down: %w", err)
	}
	return fmt.Errorf("amqpidem: no connection to RabbitMQ; nothing was done; is it running, and reachable from here? %w", err)
}

// publishOutcome is the outcome of a publication.
type publishOutcome uint8

const (
	outcomeUnsent   publishOutcome = iota // not published
	outcomeUnknown                        // the outcome is unknown
	outcomeReturned                       // the broker has no queue for it
	outcomeNacked                         // the broker could not store it
	outcomeTooLarge                       // the broker will never accept it
	// the broker accepts none like it: the exchange or the permission is missing
	outcomeRefused
)

// publishError is why a message is not confirmed.
type publishError struct {
	outcome publishOutcome
	text    string
	cause   error
}

func (e *publishError) Error() string {
	if e.cause == nil {
		return "amqpidem: " + e.text
	}
	return "amqpidem: " + e.text + ": " + e.cause.Error()
}

func (e *publishError) Unwrap() error { return e.cause }

func newPublishError(k publishOutcome, cause error, text string, args ...any) *publishError {
	return &publishError{outcome: k, text: fmt.Sprintf(text, args...), cause: cause}
}

// lostChannelError returns the error of a message whose channel has ended before its confirmation.
// size is the size of its body.
func lostChannelError(reason error, size int) *publishError {
	var e *amqp.Error
	if !errors.As(reason, &e) || !e.Server {
		return newPublishError(outcomeUnknown, reason, "the connection ended before the broker confirmed the message; its outcome is unknown: publish it again with the same id")
	}
	switch limit, isSize := sizeLimit(e); {
	case e.Code == amqp.NotFound:
		return newPublishError(outcomeRefused, e, "the exchange does not exist; the message was not taken: declare the exchange")
	case e.Code == amqp.AccessRefused:
		return newPublishError(outcomeRefused, e, "the user may not publish there; the message was not taken: grant the permission to write")
	case isSize && size > limit:
		return newPublishError(outcomeTooLarge, nil, "the body has %d bytes, and the broker takes at most %d; the message was not taken: raise max_message_size of the broker, or put the content elsewhere",
			size, limit)
	}
	return newPublishError(outcomeUnknown, reason, "the broker closed the channel before it confirmed the message; its outcome is unknown: publish it again with the same id")
}

// sizeLimit parses the broker's error for a body that is too large: "message size 600000 is larger
// than configured max size 524288", or "larger than max size" in older versions.
func sizeLimit(e *amqp.Error) (limit int, ok bool) {
	if e.Code != amqp.PreconditionFailed {
		return 0, false
	}
	_, text, found := strings.Cut(e.Reason, "max size ")
	if !found {
		return 0, false
	}
	n, _ := fmt.Sscanf(text, "%d", &limit)
	return limit, n == 1 && limit > 0
}

// isTooLarge reports whether the broker never accepts a message of this size.
func isTooLarge(err error) bool {
	var e *publishError
	return errors.As(err, &e) && e.outcome == outcomeTooLarge
}
