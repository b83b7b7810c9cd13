package amqpidem_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

func uniqueQueue() string { return "q" + rand.Text() }

func open(tb testing.TB, url, queue string, o *amqpidem.Options) *amqpidem.Source {
	tb.Helper()
	s, err := amqpidem.Open(tb.Context(), url, queue, o)
	assert.NoError(tb, err, "Open")
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// purge removes the messages that no consumer has.
func purge(tb testing.TB, url, queue string) {
	tb.Helper()
	ch := rawChannel(tb, url)
	eventually(tb, "the message is back in the queue", func() bool { return queueDepth(tb, url, queue) > 0 })
	_, err := ch.QueuePurge(queue, false)
	assert.NoError(tb, err, "purge")
}

func publisher(tb testing.TB, url string, o *amqpidem.PublisherOptions) *amqpidem.Publisher {
	tb.Helper()
	if o == nil {
		o = &amqpidem.PublisherOptions{}
	}
	o.Dialing = quietDialing()
	p, err := amqpidem.NewPublisher(tb.Context(), url, o)
	assert.NoError(tb, err, "NewPublisher")
	tb.Cleanup(func() { _ = p.Close() })
	return p
}

func deadLetters(tb testing.TB, url, queue string) *amqpidem.DeadLetters {
	tb.Helper()
	p, err := amqpidem.OpenDeadLetters(tb.Context(), url, queue, &amqpidem.Options{Dialing: quietDialing()})
	assert.NoError(tb, err, "OpenDeadLetters")
	tb.Cleanup(func() { _ = p.Close() })
	return p
}

// outgoing returns messages of a topic; the ids are the bodies.
func outgoing(topic string, bodies ...string) []outbox.Outgoing {
	batch := make([]outbox.Outgoing, len(bodies))
	for i, body := range bodies {
		batch[i] = outbox.Outgoing{Message: outbox.Message{ID: body, Topic: topic, Payload: []byte(body)}, Added: time.Now(), Attempt: 1}
	}
	return batch
}

// publish checks that all messages are confirmed.
func publish(tb testing.TB, p *amqpidem.Publisher, topic string, bodies ...string) {
	tb.Helper()
	for i, err := range p.Publish(tb.Context(), outgoing(topic, bodies...)) {
		assert.NoError(tb, err, "publish message %d", i)
	}
}

// receive waits for a message.
func receive(tb testing.TB, s *amqpidem.Source) mqidem.Delivery {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Minute)
	defer cancel()
	d, err := s.Receive(ctx)
	assert.NoError(tb, err, "Receive")
	return d
}

// drainQueue publishes one last message, and receives and acks until it was received. It returns
// how often each other id was received.
func drainQueue(tb testing.TB, url, queue string, s *amqpidem.Source) map[string]int {
	tb.Helper()
	const last = "the last one"
	publish(tb, publisher(tb, url, nil), queue, last)
	seen := map[string]int{}
	for {
		d := receive(tb, s)
		assert.NoError(tb, d.Ack(tb.Context()), "Ack")
		if d.Message().ID == last {
			return seen
		}
		seen[d.Message().ID]++
	}
}

// listDead walks a dead-letter queue and keeps all messages.
func listDead(tb testing.TB, p *amqpidem.DeadLetters) (all []*mqidem.DeadLetter) {
	tb.Helper()
	assert.NoError(tb, p.Walk(tb.Context(), func(_ context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		all = append(all, m)
		return mqidem.Keep, nil
	}), "Walk")
	return all
}
