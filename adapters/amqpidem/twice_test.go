package amqpidem_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// A message that is in a batch twice is published twice, without waiting for a timeout.
func TestSameMessageInABatch(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	assert.NoError(t, amqpidem.Declare(t.Context(), url, "q", nil), "declare")
	p, err := amqpidem.NewPublisher(t.Context(), url, &amqpidem.PublisherOptions{Timeout: time.Hour})
	assert.NoError(t, err, "publisher")
	defer p.Close()
	m := outbox.Outgoing{Message: outbox.Message{ID: "1", Topic: "q"}, Attempt: 1}
	other := outbox.Outgoing{Message: outbox.Message{ID: "2", Topic: "q"}, Attempt: 1}
	begun := time.Now()
	for _, err := range p.Publish(t.Context(), []outbox.Outgoing{m, other, m, m}) {
		assert.NoError(t, err, "publish")
	}
	assert.True(t, time.Since(begun) < 10*time.Minute, "nothing waited for its time to pass")
	eventually(t, "all of them are there", func() bool { return queueDepth(t, url, "q") == 4 })
}

// A queue that was declared without a type, which then is classic, is accepted as it is.
func TestQueueWithoutAType(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	_, err := rawChannel(t, url).QueueDeclare("q.dead", true, false, false, false, nil)
	assert.NoError(t, err, "declare")
	assert.NoError(t, amqpidem.Declare(t.Context(), url, "q", nil), "Declare")
}
