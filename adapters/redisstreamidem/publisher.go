package redisstreamidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Publisher is an outbox.Publisher: the topic of a message is a stream. It is an outbox.Ordered one
// too. It is safe for concurrent use.
type Publisher struct {
	server
	maxLen string
}

var _ outbox.Ordered = (*Publisher)(nil)

// PublisherOptions are optional.
type PublisherOptions struct {
	// MaxLen is how many entries a stream keeps, about. Default 0: all of them. What goes is the
	// oldest, also where nobody has read it.
	MaxLen int64
	// Timeout is how long one call of the server may take. Default 5 s.
	Timeout time.Duration
}

// NewPublisher makes one. The client stays the caller's.
func NewPublisher(c redisclient.Client, o *PublisherOptions) (*Publisher, error) {
	if o == nil {
		o = &PublisherOptions{}
	}
	if o.MaxLen < 0 || o.Timeout < 0 {
		return nil, errors.New("redisstreamidem: PublisherOptions cannot be negative")
	}
	return &Publisher{server{c, or(o.Timeout, 5*time.Second)}, strconv.FormatInt(o.MaxLen, 10)}, nil
}

// KeepsOrder implements outbox.Ordered: a call of the server writes messages of one stream, one
// after the other until one is refused; the next call is made when it has answered, and without the
// keys that failed.
func (p *Publisher) KeepsOrder() bool { return true }

// What one call carries at most.
const (
	mostInCall  = 256
	bytesInCall = 1 << 20
)

// Publish implements outbox.Publisher. A message has been published when the server says so; how
// durable that is is for the server's own settings to say (appendfsync, replicas). A stream that is
// no stream is not permanent: somebody may remove what is there.
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
			words := outgoing(m)
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
			written, err := p.add(ctx, batch[from].Topic, args)
			for i, n := range in {
				if i >= written {
					errs[n] = err
					failed[batch[n].Key] = true
				}
			}
			if err != nil && isAway(err) {
				away = err
			}
		}
		from = at
	}
	return errs
}

// add makes one call, and returns how many were written; the error is that of the others.
func (p *Publisher) add(ctx context.Context, stream string, args []string) (int, error) {
	reply, err := array(p.eval(ctx, add, []string{stream}, args))
	if err == nil && len(reply) == 0 {
		err = errStrange
	}
	if err != nil {
		return 0, sort(err)
	}
	n, _ := reply[0].(int64)
	if len(reply) > 1 {
		text, _ := reply[1].(string)
		return int(n), sort(explain(redisclient.Error(text)))
	}
	return int(n), nil
}

func outgoing(m *outbox.Outgoing) []string {
	f := content(m.ID, m.Key, m.ContentType, m.Payload)
	for name, value := range m.Headers {
		if !ours(name) {
			f = append(f, name, value)
		}
	}
	return f
}

// away is an error of the server, whatever the message.
type away struct{ error }

func (e away) Unwrap() error { return e.error }

func isAway(err error) bool {
	_, ok := errors.AsType[away](err)
	return ok
}

// sort tells the outbox what it can do about an error.
func sort(err error) error {
	told := fmt.Errorf("redisstreamidem: not confirmed: %w", err)
	if refused, ok := errors.AsType[redisclient.Error](err); ok {
		switch code(refused) {
		case "WRONGTYPE", "NOPERM", "CROSSSLOT":
			return told // of one stream
		case "ERR":
			if !strings.Contains(string(refused), "max number of clients") {
				return told
			}
		}
		// Of all: OOM, READONLY, LOADING, MASTERDOWN, CLUSTERDOWN, NOREPLICAS, MISCONF, BUSY,
		// NOAUTH and their like.
	}
	return outbox.Unavailable(away{told})
}
