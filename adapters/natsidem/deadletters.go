package natsidem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// DeadLetters is a mqidem.DeadLetters on its own stream. The subject of a dead letter is
// Options.DeadSubject, a dot and the message's subject. It can be used concurrently. Concurrent
// walks see all messages, and two may both see one.
type DeadLetters struct {
	js     jetstream.JetStream
	o      Options
	stream jetstream.Stream
}

var _ mqidem.DeadLetters = (*DeadLetters)(nil)

// OpenDeadLetters opens the stream of dead letters of options, which [Create] makes.
func OpenDeadLetters(ctx context.Context, js jetstream.JetStream, options *Options) (*DeadLetters, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkReconnects(js.Conn()); err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, o.Timeout)
	defer end()
	stream, err := js.Stream(ctx, o.DeadStream)
	if isMissing(err) {
		return nil, fmt.Errorf("natsidem: cannot open the stream of dead letters %s; Create makes it: %w", o.DeadStream, err)
	}
	if err != nil {
		return nil, fmt.Errorf("natsidem: cannot open the stream of dead letters %s: %w", o.DeadStream, err)
	}
	c := stream.CachedInfo().Config
	if c.Retention != jetstream.LimitsPolicy || !slices.Contains(c.Subjects, o.DeadSubject+".>") {
		return nil, fmt.Errorf("natsidem: the stream of dead letters %s does not fit: it needs the retention policy limits and the subject %s.>",
			o.DeadStream, o.DeadSubject)
	}
	return &DeadLetters{js: js, o: o, stream: stream}, nil
}

// addDeadLetter writes a dead letter and returns when the server has confirmed it. It sets no
// Nats-Msg-Id: the server would drop a message that was redriven and has failed again within the
// duplicate window.
func (p *DeadLetters) addDeadLetter(ctx context.Context, m *mqidem.Message, why mqidem.Reason) error {
	subject := p.o.DeadSubject + "." + m.Source
	err := mqidem.Fit(m, why, isTooLarge, func(m *mqidem.Message, packed []byte) error {
		out := &nats.Msg{Subject: subject, Header: messageHeader(m), Data: m.Body}
		out.Header[mqidem.HeaderDead] = []string{string(packed)}
		return p.publish(ctx, out, jetstream.WithExpectStream(p.o.DeadStream))
	})
	if err != nil {
		return fmt.Errorf("natsidem: the dead letter could not be stored; the message stays where it is: %w", explainSilence(p.js.Conn(), subject, err))
	}
	return nil
}

// publish publishes, and returns when the server has confirmed it or the outcome is unknown.
func (p *DeadLetters) publish(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) error {
	return p.request(ctx, func(ctx context.Context) error {
		_, err := p.js.PublishMsg(ctx, m, o...)
		return err
	})
}

// request makes one request. The request has the whole timeout, and ends with the connection: its
// answer would be lost with it, and the caller's context may be long.
func (p *DeadLetters) request(ctx context.Context, request func(context.Context) error) error {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	asking, answered := whileConnected(ctx, p.js.Conn())
	defer answered()
	err := request(asking)
	if err != nil && ctx.Err() == nil && asking.Err() != nil {
		return context.Cause(asking)
	}
	return err
}

// getMessage gets the message with this number, or the first one after it.
func (p *DeadLetters) getMessage(ctx context.Context, seq uint64, o ...jetstream.GetMsgOpt) (raw *jetstream.RawStreamMsg, err error) {
	err = p.request(ctx, func(ctx context.Context) (err error) {
		raw, err = p.stream.GetMsg(ctx, seq, o...)
		return err
	})
	return raw, err
}

// Walk implements mqidem.DeadLetters. It returns an error if the connection is lost.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	var info *jetstream.StreamInfo
	err := p.request(ctx, func(ctx context.Context) (err error) {
		info, err = p.stream.Info(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("natsidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	last := info.State.LastSeq
	for seq := info.State.FirstSeq; seq <= last; seq++ {
		raw, err := p.getMessage(ctx, seq, jetstream.WithGetMsgSubject(p.o.DeadSubject+".>"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("natsidem: cannot read a dead letter; those before it are dealt with: %w", err)
		}
		if seq = raw.Sequence; seq > last {
			return nil
		}
		verdict, err := see(ctx, p.deadLetterOf(raw))
		if err != nil {
			return err
		}
		if verdict != mqidem.Remove {
			continue
		}
		if err := p.request(ctx, func(ctx context.Context) error { return p.stream.DeleteMsg(ctx, seq) }); err != nil && !p.wasRemoved(ctx, seq) {
			return fmt.Errorf("natsidem: a dead letter could not be removed; it is shown again by the next walk: %w", err)
		}
	}
	return nil
}

// wasRemoved reports whether another walk has removed the message.
func (p *DeadLetters) wasRemoved(ctx context.Context, seq uint64) bool {
	_, err := p.getMessage(ctx, seq)
	return errors.Is(err, jetstream.ErrMsgNotFound)
}

func (p *DeadLetters) deadLetterOf(raw *jetstream.RawStreamMsg) *mqidem.DeadLetter {
	source := strings.TrimPrefix(raw.Subject, p.o.DeadSubject+".")
	why, err := mqidem.ParseReason([]byte(lastValue(raw.Header, mqidem.HeaderDead)))
	if err != nil {
		why = mqidem.Reason{Why: mqidem.DeadUnreadable, Source: source, At: raw.Time}
	}
	m := newMessage(source, raw.Header, raw.Data, raw.Time, 1)
	delete(m.Headers, mqidem.HeaderDead)
	return &mqidem.DeadLetter{Message: m, Reason: why}
}

// Send implements mqidem.DeadLetters. It sets another Nats-Msg-Id, since the server would otherwise
// take the message for a duplicate of the one that failed. That is not the id of the message: our
// header has the id, or is empty if there is none.
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	h := messageHeader(m)
	h[mqidem.HeaderID] = []string{m.ID}
	err := p.publish(ctx, &nats.Msg{Subject: m.Source, Header: h, Data: m.Body},
		jetstream.WithMsgID("redrive-"+outbox.NewID()), jetstream.WithExpectStream(p.o.Stream))
	if err != nil {
		return fmt.Errorf("natsidem: the redriven message is not confirmed; it stays in the dead-letter queue: %w", explainSilence(p.js.Conn(), m.Source, err))
	}
	return nil
}
