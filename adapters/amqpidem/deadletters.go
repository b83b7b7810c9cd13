package amqpidem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// DeadLetters is the dead-letter queue of a work queue. It can be used concurrently.
type DeadLetters struct {
	s    *settings
	d    *dialer
	out  *sender
	life context.Context // until Close
	stop context.CancelFunc
	mu   sync.Mutex // guards adding to work
	work sync.WaitGroup
}

var _ mqidem.DeadLetters = (*DeadLetters)(nil)

// OpenDeadLetters connects to the dead-letter queue of a queue. It declares nothing. It uses only
// Dialing and PublishTimeout of the options. Call Close at the end.
func OpenDeadLetters(ctx context.Context, url, queue string, o *Options) (*DeadLetters, error) {
	s, err := newSettings(queue, o)
	if err != nil {
		return nil, err
	}
	s.Passive = true // for the text of an error
	d, err := newDialer(url, s.Dialing)
	if err != nil {
		return nil, err
	}
	p := &DeadLetters{s: s, d: d, out: newSender(d, s.PublishTimeout, nil)}
	p.life, p.stop = context.WithCancel(context.Background())
	l, err := p.open(ctx)
	if err != nil {
		p.stop()
		return nil, err
	}
	l.close()
	return p, nil
}

// open connects and checks that the dead-letter queue exists.
func (p *DeadLetters) open(ctx context.Context) (*link, error) {
	l, err := p.d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.look(ctx, l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// look asks for the dead-letter queue. When it returns, the broker has processed everything that
// was sent earlier on the link. look ignores the number of messages in the answer, which is zero
// for a busy quorum queue.
func (p *DeadLetters) look(ctx context.Context, l *link) error {
	defer context.AfterFunc(ctx, l.sever)()
	if _, err := l.ch.QueueDeclarePassive(p.s.deadLetterQueue(), true, false, false, false, nil); err != nil {
		return p.s.refused(ctx, l, err, "queue", p.s.deadLetterQueue())
	}
	return nil
}

// Walk implements [mqidem.DeadLetters]. It gets the messages from the queue without an ack, and
// returns the kept ones when it ends. Meanwhile another walk does not see them. If the walk is cut
// off, the broker returns them. RabbitMQ ends a walk that takes longer than its consumer_timeout,
// 30 minutes by default.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) (err error) {
	p.mu.Lock()
	if p.life.Err() != nil {
		p.mu.Unlock()
		return p.closed()
	}
	p.work.Add(1)
	p.mu.Unlock()
	defer p.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	l, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	t := taken{left: 1}
	err = p.show(ctx, l, &t, see)
	if back := p.giveBack(l, &t); err == nil {
		err = back
	}
	return err
}

// taken is what a walk has got from the queue.
type taken struct {
	some  bool   // something was got
	left  int    // how many it may still get: those that were there with the first one
	kept  uint64 // the tag of the last message to return; zero: none
	again bool   // the last one had been returned before
}

// show gets messages and calls see for each.
func (p *DeadLetters) show(ctx context.Context, l *link, t *taken, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	for t.left > 0 {
		if err := ctx.Err(); err != nil {
			return p.ended(err)
		}
		raw, ok, err := p.take(ctx, l, t)
		if err != nil {
			return p.cut(ctx, l, err)
		}
		if !ok {
			return nil
		}
		before := t.kept
		t.kept = raw.DeliveryTag
		v, err := see(ctx, readDead(&raw, p.s.queue))
		if err != nil {
			return err
		}
		if v == mqidem.Remove {
			if err := l.within(writeTime, func() error { return l.ch.Ack(raw.DeliveryTag, false) }); err != nil {
				return p.cut(ctx, l, err)
			}
			t.kept = before
		}
	}
	return nil
}

func (p *DeadLetters) take(ctx context.Context, l *link, t *taken) (amqp.Delivery, bool, error) {
	defer context.AfterFunc(ctx, l.sever)()
	raw, ok, err := l.ch.Get(p.s.deadLetterQueue(), false)
	if ok {
		if t.left--; !t.some {
			t.some, t.left = true, int(raw.MessageCount)
		}
		_, t.again = raw.Headers["x-delivery-count"]
	}
	return raw, ok, err
}

// giveBack returns the kept messages to their place, and waits until the broker has done it. It
// does so also if the walk's context has ended. A quorum queue puts a returned message after those
// that were returned before, and all of these before messages that never left. So if a walk ends
// early, giveBack also gets and returns the messages that were returned before, to keep the order.
func (p *DeadLetters) giveBack(l *link, t *taken) error {
	if l.ended() { // the messages removed last may be back
		return p.cut(context.Background(), l, nil)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	for t.kept > 0 && t.again && t.left > 0 {
		raw, ok, err := p.take(ctx, l, t)
		if err != nil {
			return p.cut(ctx, l, err)
		}
		if !ok {
			break
		}
		t.kept = raw.DeliveryTag
	}
	var err error
	if t.kept > 0 {
		err = l.within(writeTime, func() error { return l.ch.Nack(t.kept, true, true) })
	}
	if err == nil {
		err = p.look(ctx, l)
	}
	if err != nil {
		return p.cut(ctx, l, err)
	}
	return nil
}

func (p *DeadLetters) ended(err error) error {
	if p.life.Err() != nil {
		return p.closed()
	}
	return err
}

func (p *DeadLetters) closed() error {
	return fmt.Errorf("amqpidem: the dead-letter queue of %q: %w", p.s.queue, mqidem.ErrSourceClosed)
}

// cut returns the error of a walk that lost its connection.
func (p *DeadLetters) cut(ctx context.Context, l *link, err error) error {
	if ctx.Err() != nil {
		return p.ended(ctx.Err())
	}
	if l.why.Load() != nil {
		err = l.reason()
	}
	return fmt.Errorf("amqpidem: the walk was cut off; what was shown is still a dead letter, except what was removed, of which the last ones may be there again: %w", err)
}

// readDead returns a message of the dead-letter queue in its original form, and its reason.
func readDead(raw *amqp.Delivery, queue string) *mqidem.DeadLetter {
	why, err := mqidem.ParseReason(text(raw.Headers[mqidem.HeaderDead]))
	if err != nil {
		why = brokersReason(raw, queue)
	}
	if why.Source == "" {
		why.Source = queue
	}
	raw.Redelivered = false // redelivered by each earlier walk
	m := read(raw, why.Source)
	keep(&m, raw)
	return &mqidem.DeadLetter{Message: &m, Reason: why}
}

// brokersReason is for messages that the broker or another program has dead-lettered.
func brokersReason(raw *amqp.Delivery, queue string) mqidem.Reason {
	why := mqidem.Reason{Why: mqidem.DeadUnreadable, Source: queue, At: raw.Timestamp}
	deaths, _ := raw.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return why
	}
	death, _ := deaths[0].(amqp.Table)
	switch reason := string(text(death["reason"])); reason {
	case "delivery_limit":
		why.Why = mqidem.DeadTries
		why.Error = "RabbitMQ has delivered it as often as the x-delivery-limit of the queue allows, and no consumer has settled it"
		why.Tries, _ = number(raw.Headers["x-delivery-count"])
	case "expired":
		why.Error = "it has lain in the queue for longer than the TTL"
	default:
		why.Error = "RabbitMQ has dead-lettered it: " + strings.ToValidUTF8(reason, "\uFFFD")
	}
	if at, ok := death["time"].(time.Time); ok {
		why.At = at.UTC()
	}
	return why
}

// Send implements [mqidem.DeadLetters]. It sends a message of [DeadLetters.Walk] with all that it
// had, also values of AMQP that are not text: see [HeaderProperties].
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	if p.life.Err() != nil {
		return p.closed()
	}
	if m.Source == "" {
		return errors.New("amqpidem: the message has no Source, so it is unknown where it belongs; nothing was published: set it to the name of the queue")
	}
	return p.out.publish(ctx, newPublishing("", m.Source, write(m, p.d.user)))
}

// Close ends running walks and the connections.
func (p *DeadLetters) Close() error {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.out.close()
	p.work.Wait()
	return nil
}
