package natsidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/outbox"
)

// Publisher is an outbox.Publisher: the topic of a message is the subject. It keeps no order within
// a batch. It can be used concurrently.
type Publisher struct {
	js      jetstream.JetStream
	nc      *nats.Conn
	timeout time.Duration
}

var _ outbox.Publisher = (*Publisher)(nil)

// mostUnconfirmed is more than a relay hands out. At the limit the client would wait, even after
// the end of the context.
const mostUnconfirmed = 1 << 20

// PublisherOptions are optional.
type PublisherOptions struct {
	// Timeout is how long the server may take to confirm a batch. Default 5 s.
	Timeout time.Duration
}

// NewPublisher returns a publisher on the connection of js, which the caller keeps. Close it at the
// end.
func NewPublisher(js jetstream.JetStream, o *PublisherOptions) (*Publisher, error) {
	if o == nil {
		o = &PublisherOptions{}
	}
	if o.Timeout < 0 {
		return nil, errors.New("natsidem: PublisherOptions.Timeout cannot be negative")
	}
	if err := checkReconnects(js.Conn()); err != nil {
		return nil, err
	}
	p := &Publisher{nc: js.Conn(), timeout: cmp.Or(o.Timeout, 5*time.Second)}
	// Its own JetStream context forgets a lost confirmation after some time, and Close only ends
	// what the publisher started.
	own := []jetstream.JetStreamOpt{jetstream.WithPublishAsyncTimeout(p.timeout), jetstream.WithPublishAsyncMaxPending(mostUnconfirmed)}
	var err error
	switch made := js.Options(); {
	case made.Domain != "":
		p.js, err = jetstream.NewWithDomain(p.nc, made.Domain, own...)
	case made.APIPrefix != "":
		p.js, err = jetstream.NewWithAPIPrefix(p.nc, made.APIPrefix, own...)
	default:
		p.js, err = jetstream.New(p.nc, own...)
	}
	if err != nil {
		return nil, fmt.Errorf("natsidem: cannot use JetStream: %w", err)
	}
	return p, nil
}

// Close ends the waits for confirmations; the connection stays open. Publish must not be called
// afterwards. It returns nil.
func (p *Publisher) Close() error {
	p.js.CleanupPublisher()
	return nil
}

// Publish implements outbox.Publisher. If the stream already has the message, by its Nats-Msg-Id,
// that is a success. A message that is too large for the server or the stream and an invalid
// subject are permanent errors. A subject without a stream is not, since an operator may create
// one. The server does not answer a publication without permission, so its error comes after the
// timeout.
func (p *Publisher) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	sent := make([]jetstream.PubAckFuture, len(batch))
	for i := range batch {
		if ctx.Err() != nil {
			errs[i] = outbox.Unavailable(ctx.Err())
			continue
		}
		if !p.nc.IsConnected() { // the client would buffer it and send it later
			errs[i] = outbox.Unavailable(errors.New("natsidem: not sent: the connection is being made"))
			continue
		}
		var err error
		if sent[i], err = p.js.PublishMsgAsync(outgoingMsg(&batch[i])); err != nil {
			errs[i] = outboxError(p.nc, batch[i].Topic, err)
		}
	}
	for i, f := range sent {
		if f == nil {
			continue
		}
		select {
		case <-f.Ok(): // also with Duplicate: the stream has it
		case err := <-f.Err():
			errs[i] = outboxError(p.nc, batch[i].Topic, err)
		case <-ctx.Done():
			errs[i] = outbox.Unavailable(ctx.Err())
		}
	}
	return errs
}

func outgoingMsg(m *outbox.Outgoing) *nats.Msg {
	h := nats.Header{}
	for name, value := range m.Headers {
		if !isOwnHeader(name) {
			h[name] = []string{value}
		}
	}
	setFieldHeaders(h, m.ID, m.Key, m.ContentType)
	h.Set(jetstream.MsgIDHeader, m.ID)
	return &nats.Msg{Subject: m.Topic, Header: h, Data: m.Payload}
}
