package amqpidem

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/mqidem"
)

// Source consumes one queue. It can be used concurrently. It has two connections: during an alarm
// of its disk or memory RabbitMQ stops reading from connections that publish, and acks must still
// get through.
type Source struct {
	settings *settings
	dialer   *dialer
	sender   *sender
	ready    chan *delivery
	lastLink atomic.Pointer[link] // of the last delivery that Receive returned
	lifeCtx  context.Context      // until Close
	stop     context.CancelFunc
	work     sync.WaitGroup
}

var (
	_ mqidem.Source  = (*Source)(nil)
	_ mqidem.Holder  = (*Source)(nil)
	_ mqidem.Limited = (*Source)(nil)
)

// Open declares what the queue needs, as [Declare] does, and starts to consume. It returns an error
// if the broker is unreachable or refuses. Later, the source replaces a lost connection, however
// long that takes. Call Close at the end.
func Open(ctx context.Context, url, queue string, o *Options) (*Source, error) {
	settings, err := newSettings(queue, o)
	if err != nil {
		return nil, err
	}
	d, err := newDialer(url, settings.Dialing)
	if err != nil {
		return nil, err
	}
	s := &Source{settings: settings, dialer: d, sender: newSender(d, settings.PublishTimeout, nil), ready: make(chan *delivery, settings.Prefetch)}
	s.lifeCtx, s.stop = context.WithCancel(context.Background())
	l, in, err := s.connect(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.work.Go(func() { s.run(l, in) })
	return s, nil
}

// connect connects and starts to consume.
func (s *Source) connect(ctx context.Context) (*link, <-chan amqp.Delivery, error) {
	l, err := s.dialer.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = s.settings.declare(ctx, l)
	var in <-chan amqp.Delivery
	if err == nil {
		in, err = s.subscribe(ctx, l)
	}
	if err != nil {
		l.close()
		return nil, nil, err
	}
	return l, in, nil
}

func (s *Source) subscribe(ctx context.Context, l *link) (in <-chan amqp.Delivery, err error) {
	defer context.AfterFunc(ctx, l.sever)()
	if err = l.channel.Qos(s.settings.Prefetch, 0, false); err == nil {
		in, err = l.channel.Consume(s.settings.queue, "", false, false, false, false, nil)
	}
	if err != nil {
		return nil, s.settings.declareError(ctx, l, err, "queue", s.settings.queue)
	}
	return in, nil
}

// run passes messages on, and reconnects, until Close.
func (s *Source) run(l *link, in <-chan amqp.Delivery) {
	// After a connection that lasted, the next one comes soon. If connections end at once, the
	// waits grow.
	const lasted = 10 * time.Second
	waits := backoff.Backoff{MaxAttempts: math.MaxInt, MaxWait: lasted / 2}
	for n := 1; ; n++ {
		if l != nil {
			began := time.Now()
			s.passMessages(l, in)
			l.close()
			if time.Since(began) > lasted {
				n = 1
			}
		}
		if s.lifeCtx.Err() != nil {
			return
		}
		if l != nil {
			s.settings.Logger.Warn("amqpidem: a consumer's connection ended; it connects again"+unreadableAdvice(l.endReason()), "queue", s.settings.queue, "error", l.endReason())
		}
		wait, _ := waits.Next(s.lifeCtx, n, 0)
		if backoff.Pause(s.lifeCtx, wait) != nil {
			return
		}
		var err error
		if l, in, err = s.connect(s.lifeCtx); err != nil && s.lifeCtx.Err() == nil {
			s.settings.Logger.Warn("amqpidem: a consumer cannot connect again; it goes on trying", "queue", s.settings.queue, "error", err)
		}
	}
}

// unreadableAdvice returns advice for the case that the client has ended the connection because it
// cannot read a message.
func unreadableAdvice(reason error) string {
	if reason == nil || !strings.Contains(reason.Error(), amqp.ErrSyntax.Reason) {
		return ""
	}
	return "; it was sent a message whose headers are nested too deeply, or are too many, for the client, and will be again: take that message out of the queue by other means"
}

// passMessages hands over the messages of a link until it ends, the broker cancels the consumer, or
// Close.
func (s *Source) passMessages(l *link, in <-chan amqp.Delivery) {
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return
			}
			select {
			case s.ready <- newDelivery(s, l, d):
			case <-l.done: // the broker delivers it again
				return
			case <-s.lifeCtx.Done():
				return
			}
		case <-l.done:
			return
		case <-s.lifeCtx.Done():
			return
		}
	}
}

// Receive implements [mqidem.Source].
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) {
	switch {
	case s.lifeCtx.Err() != nil:
		return nil, s.closedError()
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	for {
		select {
		case d := <-s.ready:
			if d.link.hasEnded() {
				continue // the broker delivers it again
			}
			d.link.heldDeliveries.Add(1)
			s.lastLink.Store(d.link)
			return d, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.lifeCtx.Done():
			return nil, s.closedError()
		}
	}
}

func (s *Source) closedError() error {
	return fmt.Errorf("amqpidem: the consumer of %q: %w", s.settings.queue, mqidem.ErrSourceClosed)
}

// Full implements [mqidem.Limited]: the consumer holds as many messages as Options.Prefetch allows.
func (s *Source) Full() bool {
	l := s.lastLink.Load()
	return l != nil && !l.hasEnded() && l.heldDeliveries.Load() >= int64(s.settings.Prefetch)
}

// HoldsFor implements [mqidem.Holder]: Options.TTL plus the longest of Options.Delays. It does not
// know the policies of the broker.
func (s *Source) HoldsFor(context.Context) (time.Duration, error) { return s.settings.holdsFor(), nil }

// Close ends Receive and returns unsettled messages to the broker. It waits for what the source has
// started, for some seconds if the broker does not answer.
func (s *Source) Close() error {
	s.stop()
	s.sender.close()
	s.work.Wait()
	return nil
}
