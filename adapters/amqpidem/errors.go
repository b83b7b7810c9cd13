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

// refusal is an error of the broker about a queue or an exchange, with advice.
type refusal struct {
	is, cause error
	text      string
}

func (r *refusal) Error() string   { return r.text + ": " + r.cause.Error() }
func (r *refusal) Unwrap() []error { return []error{r.is, r.cause} }

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

// kind is the outcome of a publication.
type kind uint8

const (
	unsent   kind = iota // not published
	unknown              // the outcome is unknown
	returned             // the broker has no queue for it
	nacked               // the broker could not store it
	tooLarge             // the broker will never accept it
	// the broker accepts none like it: the exchange or the permission is missing
	refused
)

// publishError is why a message is not confirmed.
type publishError struct {
	kind  kind
	text  string
	cause error
}

func (e *publishError) Error() string {
	if e.cause == nil {
		return "amqpidem: " + e.text
	}
	return "amqpidem: " + e.text + ": " + e.cause.Error()
}

func (e *publishError) Unwrap() error { return e.cause }

func failed(k kind, cause error, text string, args ...any) *publishError {
	return &publishError{kind: k, text: fmt.Sprintf(text, args...), cause: cause}
}

// broken returns the error of a message whose channel has ended before its confirmation. size is
// the size of its body.
func broken(reason error, size int) *publishError {
	var e *amqp.Error
	if !errors.As(reason, &e) || !e.Server {
		return failed(unknown, reason, "the connection ended before the broker confirmed the message; its outcome is unknown: publish it again with the same id")
	}
	switch limit, isSize := sizeLimit(e); {
	case e.Code == amqp.NotFound:
		return failed(refused, e, "the exchange does not exist; the message was not taken: declare the exchange")
	case e.Code == amqp.AccessRefused:
		return failed(refused, e, "the user may not publish there; the message was not taken: grant the permission to write")
	case isSize && size > limit:
		return failed(tooLarge, nil, "the body has %d bytes, and the broker takes at most %d; the message was not taken: raise max_message_size of the broker, or put the content elsewhere",
			size, limit)
	}
	return failed(unknown, reason, "the broker closed the channel before it confirmed the message; its outcome is unknown: publish it again with the same id")
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
	return errors.As(err, &e) && e.kind == tooLarge
}
