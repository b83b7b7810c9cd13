package natsidem

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/outbox"
)

// gone tells whether the stream or the consumer is not there.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist)
}

// explain says what to do about errors whose own text does not.
func explain(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the subject; create one, or add the subject to it: %w", err)
	case tooLarge(err):
		return fmt.Errorf("the message is larger than the server or the stream takes; raise max_payload or MaxMsgSize: %w", err)
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg):
		return fmt.Errorf("the subject or the name of a header cannot be sent by NATS: %w", err)
	}
	return err
}

// because adds what the server has said last about permissions to an error that says only that
// nobody answered: a publication that is refused has no answer of its own.
func because(nc *nats.Conn, subject string, err error) error {
	denied := nc.LastError()
	if silent(err) && errors.Is(denied, nats.ErrPermissionViolation) && strings.Contains(denied.Error(), `"`+subject+`"`) {
		return fmt.Errorf("the server refuses the subject to this user; allow it: %w", denied)
	}
	return explain(err)
}

// silent tells an error that says only that nobody answered in time.
func silent(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrAsyncPublishTimeout) || errors.Is(err, context.DeadlineExceeded)
}

func tooLarge(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}

// sort tells the outbox what it can do about an error of a publication.
func sort(nc *nats.Conn, subject string, err error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("natsidem: not confirmed: %w", because(nc, subject, err))
	var api *jetstream.APIError
	switch {
	case tooLarge(err), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg):
		return outbox.Permanent(told)
	case errors.Is(told, nats.ErrPermissionViolation):
		return told // of one subject, and somebody may allow it
	case errors.As(err, &api):
		if api.Code == 503 { // short of a leader, memory or disk, or not there at all
			return outbox.Unavailable(told)
		}
		return told
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return told
	}
	return outbox.Unavailable(told) // the connection, or no answer
}
