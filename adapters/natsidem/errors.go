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

// isMissing reports whether the stream or the consumer does not exist.
func isMissing(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist)
}

// explainError adds advice to errors whose text has none.
func explainError(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the subject; create one, or add the subject to it: %w", err)
	case isTooLarge(err):
		return fmt.Errorf("the message is larger than the server or the stream takes; raise max_payload or MaxMsgSize: %w", err)
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg):
		return fmt.Errorf("the subject or the name of a header cannot be sent by NATS: %w", err)
	}
	return err
}

// explainSilence adds the server's last permission error to a timeout: the server does not answer a
// publication that it refuses.
func explainSilence(nc *nats.Conn, subject string, err error) error {
	denied := nc.LastError()
	if isNoAnswer(err) && errors.Is(denied, nats.ErrPermissionViolation) && strings.Contains(denied.Error(), `"`+subject+`"`) {
		return fmt.Errorf("the server refuses the subject to this user; allow it: %w", denied)
	}
	return explainError(err)
}

// isNoAnswer reports whether an error says only that there was no answer in time.
func isNoAnswer(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrAsyncPublishTimeout) || errors.Is(err, context.DeadlineExceeded)
}

func isTooLarge(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}

// outboxError turns an error of a publication into one for the outbox.
func outboxError(nc *nats.Conn, subject string, err error) error {
	if err == nil {
		return nil
	}
	reason := fmt.Errorf("natsidem: not confirmed: %w", explainSilence(nc, subject, err))
	var api *jetstream.APIError
	switch {
	case isTooLarge(err), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg):
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
