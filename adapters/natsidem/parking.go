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

// Parking is a mqidem.Parking: a stream of its own, in which the subject of a message follows that
// of the parking. It is safe for concurrent use; several walks at once see all messages, and may
// both see one.
type Parking struct {
	js     jetstream.JetStream
	o      Options
	stream jetstream.Stream
}

var _ mqidem.Parking = (*Parking)(nil)

// OpenParking opens the stream of parked messages of o, which [Create] makes.
func OpenParking(ctx context.Context, js jetstream.JetStream, o Options) (*Parking, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := stays(js.Conn()); err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, o.Timeout)
	defer end()
	stream, err := js.Stream(ctx, o.DeadStream)
	if err != nil {
		return nil, fmt.Errorf("natsidem: cannot open the stream of parked messages %s; Create makes it: %w", o.DeadStream, err)
	}
	c := stream.CachedInfo().Config
	if c.Retention != jetstream.LimitsPolicy || !slices.Contains(c.Subjects, o.DeadSubject+".>") {
		return nil, fmt.Errorf("natsidem: the stream of parked messages %s does not fit: it needs the retention policy limits and the subject %s.>",
			o.DeadStream, o.DeadSubject)
	}
	return &Parking{js: js, o: o, stream: stream}, nil
}

// park writes a message, and returns when the server has confirmed it. It has no Nats-Msg-Id:
// within the duplicate window a message that was put back and has failed again would be dropped.
func (p *Parking) park(ctx context.Context, m *mqidem.Message, why mqidem.Reason) error {
	subject := p.o.DeadSubject + "." + m.Source
	err := mqidem.Fit(m, why, tooLarge, func(m *mqidem.Message, packed []byte) error {
		out := &nats.Msg{Subject: subject, Header: header(m), Data: m.Body}
		out.Header[mqidem.HeaderDead] = []string{string(packed)}
		return p.write(ctx, out, jetstream.WithExpectStream(p.o.DeadStream))
	})
	if err != nil {
		return fmt.Errorf("natsidem: the message could not be parked; it stays where it is: %w", because(p.js.Conn(), subject, err))
	}
	return nil
}

// write publishes, and returns when the server has confirmed it, or nobody can tell.
func (p *Parking) write(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) error {
	return p.ask(ctx, func(ctx context.Context) error {
		_, err := p.js.PublishMsg(ctx, m, o...)
		return err
	})
}

// ask makes one request, which has the timeout for itself and ends with the connection: its answer
// would go with it, and a caller's time may be long.
func (p *Parking) ask(ctx context.Context, request func(context.Context) error) error {
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

// read gets the message with this number, or the first one behind it.
func (p *Parking) read(ctx context.Context, seq uint64, o ...jetstream.GetMsgOpt) (raw *jetstream.RawStreamMsg, err error) {
	err = p.ask(ctx, func(ctx context.Context) (err error) {
		raw, err = p.stream.GetMsg(ctx, seq, o...)
		return err
	})
	return raw, err
}

// Walk implements mqidem.Parking. It ends with an error where the connection is lost.
func (p *Parking) Walk(ctx context.Context, see func(context.Context, *mqidem.Parked) (mqidem.Verdict, error)) error {
	var info *jetstream.StreamInfo
	err := p.ask(ctx, func(ctx context.Context) (err error) {
		info, err = p.stream.Info(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("natsidem: cannot look at the parked messages; nothing was changed: %w", err)
	}
	last := info.State.LastSeq
	for seq := info.State.FirstSeq; seq <= last; seq++ {
		raw, err := p.read(ctx, seq, jetstream.WithGetMsgSubject(p.o.DeadSubject+".>"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("natsidem: cannot read a parked message; those before it are dealt with: %w", err)
		}
		if seq = raw.Sequence; seq > last {
			return nil
		}
		verdict, err := see(ctx, p.parked(raw))
		if err != nil {
			return err
		}
		if verdict != mqidem.Remove {
			continue
		}
		if err := p.ask(ctx, func(ctx context.Context) error { return p.stream.DeleteMsg(ctx, seq) }); err != nil && !p.isGone(ctx, seq) {
			return fmt.Errorf("natsidem: a parked message could not be removed; it is shown again by the next walk: %w", err)
		}
	}
	return nil
}

// isGone tells whether another walk has removed it.
func (p *Parking) isGone(ctx context.Context, seq uint64) bool {
	_, err := p.read(ctx, seq)
	return errors.Is(err, jetstream.ErrMsgNotFound)
}

func (p *Parking) parked(raw *jetstream.RawStreamMsg) *mqidem.Parked {
	source := strings.TrimPrefix(raw.Subject, p.o.DeadSubject+".")
	why, err := mqidem.ParseReason([]byte(last(raw.Header, mqidem.HeaderDead)))
	if err != nil {
		why = mqidem.Reason{Why: mqidem.DeadUnreadable, Source: source, At: raw.Time}
	}
	m := message(source, raw.Header, raw.Data, raw.Time, 1)
	delete(m.Headers, mqidem.HeaderDead)
	return &mqidem.Parked{Message: m, Reason: why}
}

// Send implements mqidem.Parking. It gives the message another Nats-Msg-Id, or the server would
// take it for a repeat of the one that had failed. That is no id of the message: also where it has
// none, our header says so.
func (p *Parking) Send(ctx context.Context, m *mqidem.Message) error {
	h := header(m)
	h[mqidem.HeaderID] = []string{m.ID}
	err := p.write(ctx, &nats.Msg{Subject: m.Source, Header: h, Data: m.Body},
		jetstream.WithMsgID("redrive-"+outbox.NewID()), jetstream.WithExpectStream(p.o.Stream))
	if err != nil {
		return fmt.Errorf("natsidem: the message is not known to be put back; it stays parked: %w", because(p.js.Conn(), m.Source, err))
	}
	return nil
}
