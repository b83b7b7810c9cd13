package memqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Broker is a broker in memory. It makes a queue when a caller first names it. Its methods may be
// called concurrently.
type Broker struct {
	mu     sync.Mutex // guards the fields below, and all queues
	queues map[string]*queue
	bound  map[string][]string // topic to queues
}

// New returns a broker without queues.
func New() *Broker { return &Broker{queues: map[string]*queue{}, bound: map[string][]string{}} }

// queue holds the messages of one queue.
type queue struct {
	name   string
	ready  []*entry
	later  map[*entry]*time.Timer // waiting for a later try
	dead   []*entry
	signal chan struct{} // closed and replaced when an entry becomes ready
}

// entry is one message in a queue.
type entry struct {
	message *mqidem.Message
	reason  mqidem.Reason // of a dead letter
}

// queueOf returns the queue of a name, and makes it if needed. The lock is held.
func (b *Broker) queueOf(name string) *queue {
	q := b.queues[name]
	if q == nil {
		q = &queue{name: name, later: map[*entry]*time.Timer{}, signal: make(chan struct{})}
		b.queues[name] = q
	}
	return q
}

func (q *queue) push(e ...*entry) {
	q.ready = append(q.ready, e...)
	close(q.signal)
	q.signal = make(chan struct{})
}

// Bind makes a topic reach all of these queues from now on. An unbound topic is the name of a
// queue.
func (b *Broker) Bind(topic string, queues ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bound[topic] = slices.Clone(queues)
}

// KeepsOrder implements [outbox.Ordered]: the broker refuses no message, so none overtakes another.
func (b *Broker) KeepsOrder() bool { return true }

// Publish implements [outbox.Publisher].
func (b *Broker) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	for i := range batch {
		o := &batch[i]
		m := mqidem.Message{ID: o.ID, Key: o.Key, ContentType: o.ContentType, Headers: map[string][]byte{}, Body: o.Payload, Published: time.Now()}
		for name, value := range o.Headers {
			m.Headers[name] = []byte(value)
		}
		errs[i] = outbox.Unavailable(b.addToTopic(ctx, o.Topic, &m))
	}
	return errs
}

// addToTopic adds a copy of m to each queue of a topic.
func (b *Broker) addToTopic(ctx context.Context, topic string, m *mqidem.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(ctx.Err(), b.checkOpen()); err != nil {
		return err
	}
	names := b.bound[topic]
	if names == nil {
		names = []string{topic}
	}
	for _, name := range names {
		c := m.Clone()
		c.Source, c.Deliveries = name, 0
		b.queueOf(name).push(&entry{message: c})
	}
	return nil
}

// Stats returns how many messages of a queue wait, and how many are dead letters. It does not count
// those that a consumer holds.
func (b *Broker) Stats(queue string) (waiting, dead int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queueOf(queue)
	return len(q.ready) + len(q.later), len(q.dead)
}

// Close drops all messages. Open sources then return errors that wrap [mqidem.ErrSourceClosed].
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.queues {
		for _, t := range q.later {
			t.Stop()
		}
		close(q.signal)
	}
	b.queues = nil
	return nil
}

// checkOpen returns an error if the broker was closed. The lock is held.
func (b *Broker) checkOpen() error {
	if b.queues == nil {
		return fmt.Errorf("memqueue: the broker is closed: %w", mqidem.ErrSourceClosed)
	}
	return nil
}
