package memqueue

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// Source is a consumer of one queue.
type Source struct {
	broker *Broker
	name   string
	// The broker's lock guards the fields below.
	held   map[*delivery]struct{}
	closed chan struct{}
}

// Open returns a consumer of a queue. Several consumers share its messages.
func (b *Broker) Open(queue string) *Source {
	return &Source{broker: b, name: queue, held: map[*delivery]struct{}{}, closed: make(chan struct{})}
}

// Receive implements [mqidem.Source].
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) {
	for {
		d, signal, err := s.tryReceive(ctx)
		if d != nil || err != nil {
			return d, err
		}
		select {
		case <-signal:
		case <-s.closed:
		case <-ctx.Done():
		}
	}
}

func (s *Source) tryReceive(ctx context.Context) (mqidem.Delivery, <-chan struct{}, error) {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := s.checkOpen(); err != nil {
		return nil, nil, err
	}
	q := b.queueOf(s.name)
	if len(q.ready) == 0 {
		return nil, q.signal, nil
	}
	e := q.ready[0]
	q.ready[0], q.ready = nil, q.ready[1:]
	e.message.Deliveries++
	d := &delivery{source: s, entry: e, message: e.message.Clone()}
	s.held[d] = struct{}{}
	return d, nil, nil
}

// checkOpen returns an error if the source or its broker is closed. The lock is held.
func (s *Source) checkOpen() error {
	select {
	case <-s.closed:
		return mqidem.ErrSourceClosed
	default:
		return s.broker.checkOpen()
	}
}

// Close returns unsettled messages to the front of the queue.
func (s *Source) Close() error {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.checkOpen() != nil {
		return nil
	}
	close(s.closed)
	q := b.queueOf(s.name)
	back := make([]*entry, 0, len(s.held)+len(q.ready))
	for d := range s.held {
		back = append(back, d.entry)
	}
	s.held = nil
	back = append(back, q.ready...)
	q.ready = nil
	q.push(back...)
	return nil
}

// delivery is a message that a consumer holds.
type delivery struct {
	source  *Source
	entry   *entry
	message *mqidem.Message
	settled bool // the broker's lock guards it
}

func (d *delivery) Message() *mqidem.Message { return d.message }

// settleOnce removes the delivery from its source and calls then, both under the lock.
func (d *delivery) settleOnce(ctx context.Context, then func(*queue)) error {
	b := d.source.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.settled {
		return mqidem.ErrSettled
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.source.checkOpen() != nil {
		return mqidem.ErrStale
	}
	d.settled = true
	delete(d.source.held, d)
	then(b.queueOf(d.source.name))
	return nil
}

// Ack implements [mqidem.Delivery].
func (d *delivery) Ack(ctx context.Context) error { return d.settleOnce(ctx, func(*queue) {}) }

// Retry implements [mqidem.Delivery].
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settleOnce(ctx, func(q *queue) {
		b := d.source.broker
		q.later[d.entry] = time.AfterFunc(after, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if _, waits := q.later[d.entry]; waits && b.checkOpen() == nil {
				delete(q.later, d.entry)
				q.push(d.entry)
			}
		})
	})
}

// Dead implements [mqidem.Delivery].
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	if _, err := why.Pack(); err != nil {
		return err
	}
	return d.settleOnce(ctx, func(q *queue) {
		q.dead = append(q.dead, &entry{message: d.entry.message, reason: why})
	})
}
