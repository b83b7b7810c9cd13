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

// gone reports whether the stream or the consumer does not exist.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist)
}

// explain adds advice to errors whose text has none.
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

// because adds the server's last permission error to a timeout: the server does not answer a
// publication that it refuses.
func because(nc *nats.Conn, subject string, err error) error {
	denied := nc.LastError()
	if silent(err) && errors.Is(denied, nats.ErrPermissionViolation) && strings.Contains(denied.Error(), `"`+subject+`"`) {
		return fmt.Errorf("the server refuses the subject to this user; allow it: %w", denied)
	}
	return explain(err)
}

// silent reports whether an error says only that there was no answer in time.
func silent(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrAsyncPublishTimeout) || errors.Is(err, context.DeadlineExceeded)
}

func tooLarge(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}

// sort turns an error of a publication into one for the outbox.
func sort(nc *nats.Conn, subject string, err error) error {
	if err == nil {
		return nil
	}
	reason := fmt.Errorf("natsidem: not confirmed: %w", because(nc, subject, err))
	var api *jetstream.APIError
	switch {
	case tooLarge(err), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg):
		return outbox.Permanent(reason)
	case errors.Is(reason, nats.ErrPermissionViolation):
		return reason // of one subject, which an operator may allow
	case errors.As(err, &api):
		if api.Code == 503 { // short of a leader, memory or disk, or not there at all
			return outbox.Unavailable(reason)
		}
		return reason
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return reason
	}
	return outbox.Unavailable(reason) // the connection, or no answer
}
