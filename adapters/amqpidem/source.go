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
	s     *settings
	d     *dialer
	out   *sender
	ready chan *delivery
	last  atomic.Pointer[link] // of the last delivery that Receive returned
	life  context.Context      // until Close
	stop  context.CancelFunc
	work  sync.WaitGroup
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
	s := &Source{s: settings, d: d, out: newSender(d, settings.PublishTimeout, nil), ready: make(chan *delivery, settings.Prefetch)}
	s.life, s.stop = context.WithCancel(context.Background())
	l, in, err := s.consume(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.work.Go(func() { s.run(l, in) })
	return s, nil
}

// consume connects and starts to consume.
func (s *Source) consume(ctx context.Context) (*link, <-chan amqp.Delivery, error) {
	l, err := s.d.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = s.s.declare(ctx, l)
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
	if err = l.ch.Qos(s.s.Prefetch, 0, false); err == nil {
		in, err = l.ch.Consume(s.s.queue, "", false, false, false, false, nil)
	}
	if err != nil {
		return nil, s.s.refused(ctx, l, err, "queue", s.s.queue)
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
			s.pass(l, in)
			l.close()
			if time.Since(began) > lasted {
				n = 1
			}
		}
		if s.life.Err() != nil {
			return
		}
		if l != nil {
			s.s.Logger.Warn("amqpidem: a consumer's connection ended; it connects again"+unreadable(l.reason()), "queue", s.s.queue, "error", l.reason())
		}
		wait, _ := waits.Next(s.life, n, 0)
		if backoff.Pause(s.life, wait) != nil {
			return
		}
		var err error
		if l, in, err = s.consume(s.life); err != nil && s.life.Err() == nil {
			s.s.Logger.Warn("amqpidem: a consumer cannot connect again; it goes on trying", "queue", s.s.queue, "error", err)
		}
	}
}

// unreadable returns advice for the case that the client has ended the connection because it cannot
// read a message.
func unreadable(reason error) string {
	if reason == nil || !strings.Contains(reason.Error(), amqp.ErrSyntax.Reason) {
		return ""
	}
	return "; it was sent a message whose headers are nested too deeply, or are too many, for the client, and will be again: take that message out of the queue by other means"
}

// pass hands over the messages of a link until it ends, the broker cancels the consumer, or Close.
func (s *Source) pass(l *link, in <-chan amqp.Delivery) {
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return
			}
			select {
			case s.ready <- newDelivery(s, l, d):
			case <-l.gone: // the broker delivers it again
				return
			case <-s.life.Done():
				return
			}
		case <-l.gone:
			return
		case <-s.life.Done():
			return
		}
	}
}

// Receive implements [mqidem.Source].
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) {
	switch {
	case s.life.Err() != nil:
		return nil, s.closed()
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	for {
		select {
		case d := <-s.ready:
			if d.link.ended() {
				continue // the broker delivers it again
			}
			d.link.out.Add(1)
			s.last.Store(d.link)
			return d, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.life.Done():
			return nil, s.closed()
		}
	}
}

func (s *Source) closed() error {
	return fmt.Errorf("amqpidem: the consumer of %q: %w", s.s.queue, mqidem.ErrSourceClosed)
}

// Full implements [mqidem.Limited]: the consumer holds as many messages as Options.Prefetch allows.
func (s *Source) Full() bool {
	l := s.last.Load()
	return l != nil && !l.ended() && l.out.Load() >= int64(s.s.Prefetch)
}

// HoldsFor implements [mqidem.Holder]: Options.TTL plus the longest of Options.Delays. It does not
// know the policies of the broker.
func (s *Source) HoldsFor(context.Context) (time.Duration, error) { return s.s.holdsFor(), nil }

// Close ends Receive and returns unsettled messages to the broker. It waits for what the source has
// started, for some seconds if the broker does not answer.
func (s *Source) Close() error {
	s.stop()
	s.out.close()
	s.work.Wait()
	return nil
}
