package redisstreamidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Publisher is an outbox.Publisher and an outbox.Ordered: the topic of a message is a stream. It
// can be used concurrently.
type Publisher struct {
	server
	maxLen string
}

var _ outbox.Ordered = (*Publisher)(nil)

// PublisherOptions are optional.
type PublisherOptions struct {
	// MaxLen is the approximate number of entries that a stream keeps. Default 0: all of them. The
	// oldest entries are dropped, also if no consumer has read them.
	MaxLen int64
	// Timeout is how long one call of the server may take. Default 5 s.
	Timeout time.Duration
}

// NewPublisher returns a publisher. The caller keeps the client.
func NewPublisher(c redisclient.Client, o *PublisherOptions) (*Publisher, error) {
	if o == nil {
		o = &PublisherOptions{}
	}
	if o.MaxLen < 0 || o.Timeout < 0 {
		return nil, errors.New("redisstreamidem: PublisherOptions cannot be negative")
	}
	return &Publisher{server{c, cmp.Or(o.Timeout, 5*time.Second)}, strconv.FormatInt(o.MaxLen, 10)}, nil
}

// KeepsOrder implements outbox.Ordered. One call writes messages of one stream, one after the
// other, until the server refuses one. The next call starts after the reply, without the keys that
// failed.
func (p *Publisher) KeepsOrder() bool { return true }

// Limits of one call.
const (
	mostInCall  = 256
	bytesInCall = 1 << 20
)

// Publish implements outbox.Publisher. A message is published when the server says so. How durable
// that is depends on the settings of the server (appendfsync, replicas). If a topic is a key that
// is not a stream, the error is not permanent, since an operator may remove that key.
func (p *Publisher) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	failed := map[string]bool{}
	var away error
	for from := 0; from < len(batch); {
		var in []int
		args := []string{p.maxLen}
		size := 0
		at := from
		for ; at < len(batch) && len(in) < mostInCall && size < bytesInCall && batch[at].Topic == batch[from].Topic; at++ {
			m := &batch[at]
			words := outgoingFields(m)
			switch {
			case away != nil:
				errs[at] = away
			case m.Key != "" && failed[m.Key]:
				errs[at] = outbox.ErrHeldUp
			case len(words) > mostFields:
				errs[at] = outbox.Permanent(fmt.Errorf("redisstreamidem: the message has %d headers; at most %d can be written", len(m.Headers), mostFields/2-4))
				failed[m.Key] = true
			default:
				in = append(in, at)
				args = append(append(args, strconv.Itoa(len(words))), words...)
				size += len(m.Payload)
			}
		}
		if len(in) > 0 {
			written, err := p.addEntries(ctx, batch[from].Topic, args)
			for i, n := range in {
				if i >= written {
					errs[n] = err
					failed[batch[n].Key] = true
				}
			}
			if err != nil && isServerAway(err) {
				away = err
			}
		}
		from = at
	}
	return errs
}

// addEntries makes one call and returns how many messages were written; the error is that of the
// others.
func (p *Publisher) addEntries(ctx context.Context, stream string, args []string) (int, error) {
	reply, err := parseArray(p.eval(ctx, addScript, []string{stream}, args))
	if err == nil && len(reply) == 0 {
		err = errUnexpectedReply
	}
	if err != nil {
		return 0, outboxError(err)
	}
	n, _ := reply[0].(int64)
	if len(reply) > 1 {
		text, _ := reply[1].(string)
		return int(n), outboxError(explainError(redisclient.Error(text)))
	}
	return int(n), nil
}

func outgoingFields(m *outbox.Outgoing) []string {
	f := contentFields(m.ID, m.Key, m.ContentType, m.Payload)
	for name, value := range m.Headers {
		if !isOwnField(name) {
			f = append(f, name, value)
		}
	}
	return f
}

// serverAway is an error of the server that does not depend on the message.
type serverAway struct{ error }

func (e serverAway) Unwrap() error { return e.error }

func isServerAway(err error) bool {
	_, ok := errors.AsType[serverAway](err)
	return ok
}

// outboxError turns an error into one for the outbox.
func outboxError(err error) error {
	reason := fmt.Errorf("redisstreamidem: not confirmed: %w", err)
	if refused, ok := errors.AsType[redisclient.Error](err); ok {
		switch refused.Code() {
		case "WRONGTYPE", "NOPERM", "CROSSSLOT":
			return reason // of one stream
		case "ERR":
			if !strings.Contains(string(refused), "max number of clients") {
				return reason
			}
		}
		// Errors for all messages: OOM, READONLY, LOADING, MASTERDOWN, CLUSTERDOWN, NOREPLICAS,
		// MISCONF, BUSY, NOAUTH and similar.
	}
	return outbox.Unavailable(serverAway{reason})
}
