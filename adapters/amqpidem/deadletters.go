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
	settings *settings
	dialer   *dialer
	sender   *sender
	lifeCtx  context.Context // until Close
	stop     context.CancelFunc
	mu       sync.Mutex // guards adding to work
	work     sync.WaitGroup
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
	p := &DeadLetters{settings: s, dialer: d, sender: newSender(d, s.PublishTimeout, nil)}
	p.lifeCtx, p.stop = context.WithCancel(context.Background())
	l, err := p.connect(ctx)
	if err != nil {
		p.stop()
		return nil, err
	}
	l.close()
	return p, nil
}

// connect connects and checks that the dead-letter queue exists.
func (p *DeadLetters) connect(ctx context.Context) (*link, error) {
	l, err := p.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.checkQueue(ctx, l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// checkQueue asks for the dead-letter queue. When it returns, the broker has processed everything
// that was sent earlier on the link. checkQueue ignores the number of messages in the answer, which
// is zero for a busy quorum queue.
func (p *DeadLetters) checkQueue(ctx context.Context, l *link) error {
	defer context.AfterFunc(ctx, l.sever)()
	if _, err := l.channel.QueueDeclarePassive(p.settings.deadLetterQueue(), true, false, false, false, nil); err != nil {
		return p.settings.declareError(ctx, l, err, "queue", p.settings.deadLetterQueue())
	}
	return nil
}

// Walk implements [mqidem.DeadLetters]. It gets the messages from the queue without an ack, and
// returns the kept ones when it ends. Meanwhile another walk does not see them. If the walk is cut
// off, the broker returns them. RabbitMQ ends a walk that takes longer than its consumer_timeout,
// 30 minutes by default.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) (err error) {
	p.mu.Lock()
	if p.lifeCtx.Err() != nil {
		p.mu.Unlock()
		return p.closedError()
	}
	p.work.Add(1)
	p.mu.Unlock()
	defer p.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.lifeCtx, cancel)()
	l, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	t := walkState{remaining: 1}
	err = p.showMessages(ctx, l, &t, see)
	if back := p.returnKept(l, &t); err == nil {
		err = back
	}
	return err
}

// walkState is what a walk has got from the queue.
type walkState struct {
	gotAny          bool   // something was got
	remaining       int    // how many it may still get: those that were there with the first one
	kept            uint64 // the tag of the last message to return; zero: none
	lastWasReturned bool   // the last one had been returned before
}

// showMessages gets messages and calls see for each.
func (p *DeadLetters) showMessages(ctx context.Context, l *link, t *walkState, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	for t.remaining > 0 {
		if err := ctx.Err(); err != nil {
			return p.endError(err)
		}
		raw, ok, err := p.getMessage(ctx, l, t)
		if err != nil {
			return p.cutOffError(ctx, l, err)
		}
		if !ok {
			return nil
		}
		before := t.kept
		t.kept = raw.DeliveryTag
		v, err := see(ctx, readDead(&raw, p.settings.queue))
		if err != nil {
			return err
		}
		if v == mqidem.Remove {
			if err := l.limitTime(writeTime, func() error { return l.channel.Ack(raw.DeliveryTag, false) }); err != nil {
				return p.cutOffError(ctx, l, err)
			}
			t.kept = before
		}
	}
	return nil
}

func (p *DeadLetters) getMessage(ctx context.Context, l *link, t *walkState) (amqp.Delivery, bool, error) {
	defer context.AfterFunc(ctx, l.sever)()
	raw, ok, err := l.channel.Get(p.settings.deadLetterQueue(), false)
	if ok {
		if t.remaining--; !t.gotAny {
			t.gotAny, t.remaining = true, int(raw.MessageCount)
		}
		_, t.lastWasReturned = raw.Headers["x-delivery-count"]
	}
	return raw, ok, err
}

// returnKept returns the kept messages to their place, and waits until the broker has done it. It
// does so also if the walk's context has ended. A quorum queue puts a returned message after those
// that were returned before, and all of these before messages that never left. So if a walk ends
// early, returnKept also gets and returns the messages that were returned before, to keep the
// order.
func (p *DeadLetters) returnKept(l *link, t *walkState) error {
	if l.hasEnded() { // the messages removed last may be back
		return p.cutOffError(context.Background(), l, nil)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	for t.kept > 0 && t.lastWasReturned && t.remaining > 0 {
		raw, ok, err := p.getMessage(ctx, l, t)
		if err != nil {
			return p.cutOffError(ctx, l, err)
		}
		if !ok {
			break
		}
		t.kept = raw.DeliveryTag
	}
	var err error
	if t.kept > 0 {
		err = l.limitTime(writeTime, func() error { return l.channel.Nack(t.kept, true, true) })
	}
	if err == nil {
		err = p.checkQueue(ctx, l)
	}
	if err != nil {
		return p.cutOffError(ctx, l, err)
	}
	return nil
}

func (p *DeadLetters) endError(err error) error {
	if p.lifeCtx.Err() != nil {
		return p.closedError()
	}
	return err
}

func (p *DeadLetters) closedError() error {
	return fmt.Errorf("amqpidem: the dead-letter queue of %q: %w", p.settings.queue, mqidem.ErrSourceClosed)
}

// cutOffError returns the error of a walk that lost its connection.
func (p *DeadLetters) cutOffError(ctx context.Context, l *link, err error) error {
	if ctx.Err() != nil {
		return p.endError(ctx.Err())
	}
	if l.closeErr.Load() != nil {
		err = l.endReason()
	}
	return fmt.Errorf("amqpidem: the walk was cut off; what was shown is still a dead letter, except what was removed, of which the last ones may be there again: %w", err)
}

// readDead returns a message of the dead-letter queue in its original form, and its reason.
func readDead(raw *amqp.Delivery, queue string) *mqidem.DeadLetter {
	why, err := mqidem.ParseReason(headerText(raw.Headers[mqidem.HeaderDead]))
	if err != nil {
		why = brokersReason(raw, queue)
	}
	if why.Source == "" {
		why.Source = queue
	}
	raw.Redelivered = false // redelivered by each earlier walk
	m := readMessage(raw, why.Source)
	keepProperties(&m, raw)
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
	switch reason := string(headerText(death["reason"])); reason {
	case "delivery_limit":
		why.Why = mqidem.DeadTries
		why.Error = "RabbitMQ has delivered it as often as the x-delivery-limit of the queue allows, and no consumer has settled it"
		why.Tries, _ = parseCount(raw.Headers["x-delivery-count"])
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
	if p.lifeCtx.Err() != nil {
		return p.closedError()
	}
	if m.Source == "" {
		return errors.New("amqpidem: the message has no Source, so it is unknown where it belongs; nothing was published: set it to the name of the queue")
	}
	return p.sender.publish(ctx, newPublishing("", m.Source, toPublishing(m, p.dialer.user)))
}

// Close ends running walks and the connections.
func (p *DeadLetters) Close() error {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.sender.close()
	p.work.Wait()
	return nil
}
