package amqpidem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// TestUnroutable: a message that reaches no queue gets an error that says so, and only that message
// does. It counts as a failed attempt of the message.
func TestUnroutable(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, &amqpidem.Options{Exchange: "events", Bindings: []string{"known.*"}}), "Declare")
	for _, oneByOne := range []bool{false, true} {
		out := publisher(t, url, &amqpidem.PublisherOptions{OneByOne: oneByOne})
		assert.Equal(t, out.KeepsOrder(), oneByOne, "KeepsOrder")
		var batch []outbox.Outgoing
		for i := range 100 {
			batch = append(batch, outgoing([]string{queue, "nowhere"}[i%2], fmt.Sprint(i))...)
		}
		for i, err := range out.Publish(t.Context(), batch) {
			if i%2 == 0 {
				assert.NoError(t, err, "message %d", i)
				continue
			}
			assert.True(t, err != nil && !unavailable(err) && !isPermanent(err), "message %d: %v", i, err)
			assert.Contains(t, err.Error(), `no queue takes a message for the routing key "nowhere" on the default exchange`, "the error")
		}
		events := publisher(t, url, &amqpidem.PublisherOptions{Exchange: "events", OneByOne: oneByOne})
		publish(t, events, "known.key", "m")
		err := events.Publish(t.Context(), outgoing("unknown.key", "m"))[0]
		assert.True(t, err != nil && !unavailable(err) && !isPermanent(err), "an unbound key: %v", err)
		assert.Contains(t, err.Error(), `"unknown.key" on the exchange events`, "the error")
	}
	assert.Equal(t, queueDepth(t, url, queue), 102, "messages in the queue")
}

// TestSameMessage: several concurrent publications of one message are told apart, whether they
// reach a queue or not: a binding comes and goes meanwhile.
func TestSameMessage(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, &amqpidem.Options{Exchange: "events", Bindings: []string{"none"}, Dialing: quietDialing()}), "Declare")
	out, ch := publisher(t, url, &amqpidem.PublisherOptions{Exchange: "events"}), rawChannel(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var confirmed, refused atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				if out.Publish(t.Context(), outgoing("some", "m"))[0] == nil {
					confirmed.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	for range 100 {
		assert.NoError(t, ch.QueueBind(queue, "some", "events", false, nil), "bind")
		seen := confirmed.Load()
		eventually(t, "a message is confirmed", func() bool { return confirmed.Load() > seen })
		assert.NoError(t, ch.QueueUnbind(queue, "some", "events", nil), "unbind")
		seen = refused.Load()
		eventually(t, "a message is returned", func() bool { return refused.Load() > seen })
	}
	cancel()
	all.Wait()
	assert.Equal(t, queueDepth(t, url, queue), int(confirmed.Load()), "messages in the queue, and confirmed ones (%d were returned)", refused.Load())
}

// TestTooLarge: a message over the broker's limit is dead at once. Others in flight with it are
// published again.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, nil), "Declare")
	for i := range 20 { // the number that is confirmed before the channel is closed varies
		oneByOne := i%2 == 1
		out := publisher(t, url, &amqpidem.PublisherOptions{OneByOne: oneByOne})
		batch := outgoing(queue, "small", "large", "small too")
		batch[1].Payload = make([]byte, maxMessage+1)
		errs := out.Publish(t.Context(), batch)
		assert.True(t, isPermanent(errs[1]), "the large one: %v", errs[1])
		assert.Contains(t, errs[1].Error(), "the broker takes at most 1048576", "the error")
		for _, i := range []int{0, 2} {
			assert.True(t, errs[i] == nil || unavailable(errs[i]), "a small one: %v", errs[i])
		}
		publish(t, out, queue, "small", "small too")
		batch[1].Payload = make([]byte, maxMessage)
		assert.NoError(t, out.Publish(t.Context(), batch)[1], "the largest that it takes")
	}
	p, err := amqpidem.OpenDeadLetters(t.Context(), url, queue, &amqpidem.Options{Dialing: quietDialing()})
	assert.NoError(t, err, "OpenDeadLetters")
	assert.NoError(t, p.Close(), "Close")
	assert.True(t, p.Send(t.Context(), nil) != nil, "Send of a closed one fails")
	assert.True(t, p.Walk(t.Context(), nil) != nil, "Walk of a closed one fails")
}

// TestRefusedByQueue: a full queue refuses each message separately and holds up nothing else.
func TestRefusedByQueue(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	ch := rawChannel(t, url)
	for name, args := range map[string]amqp.Table{"full": {"x-max-length": 1, "x-overflow": "reject-publish"}, queue: nil} {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		assert.NoError(t, err, "declare")
	}
	out := publisher(t, url, nil)
	publish(t, out, "full", "one")
	errs := out.Publish(t.Context(), append(outgoing("full", "two"), outgoing(queue, "three")...))
	assert.True(t, errs[0] != nil && !unavailable(errs[0]) && !isPermanent(errs[0]), "the full queue: %v", errs[0])
	assert.Contains(t, errs[0].Error(), "could not keep the message", "the error")
	assert.NoError(t, errs[1], "the other one")
}

// TestExchangeDeleted: while the exchange of a publisher is gone, no attempt of a message counts.
// When it is back, the messages are published.
func TestExchangeDeleted(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	o := &amqpidem.Options{Exchange: "events", Dialing: quietDialing()}
	assert.NoError(t, amqpidem.Declare(t.Context(), url, "q", o), "Declare")
	out := publisher(t, url, &amqpidem.PublisherOptions{Exchange: "events"})
	publish(t, out, "key", "before")
	assert.NoError(t, rawChannel(t, url).ExchangeDelete("events", false, false), "delete the exchange")
	for range 2 {
		err := out.Publish(t.Context(), outgoing("key", "m"))[0]
		assert.True(t, unavailable(err), "without the exchange: %v", err)
		assert.Contains(t, err.Error(), "events", "the error")
	}
	assert.NoError(t, amqpidem.Declare(t.Context(), url, "q", o), "Declare")
	publish(t, out, "key", "after")
}

// TestPublisherClosed: a closed publisher publishes nothing, and its batch waits. So does one whose
// context has ended.
func TestPublisherClosed(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, nil), "Declare")
	for _, oneByOne := range []bool{false, true} {
		out := publisher(t, url, &amqpidem.PublisherOptions{OneByOne: oneByOne})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := out.Publish(ctx, outgoing(queue, "m"))[0]
		assert.True(t, unavailable(err) && errors.Is(err, context.Canceled), "a context that has ended: %v", err)
		assert.NoError(t, out.Close(), "Close")
		assert.NoError(t, out.Close(), "Close again")
		err = out.Publish(t.Context(), outgoing(queue, "m"))[0]
		assert.True(t, unavailable(err), "a closed one: %v", err)
	}
	assert.Equal(t, queueDepth(t, url, queue), 0, "messages in the queue")
}

// TestPublishContent: a message has its time and key, and is persistent.
func TestPublishContent(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, nil), "Declare")
	m := outgoing(queue, "m")
	m[0].Key, m[0].Added = "k", time.Unix(1700000000, 5)
	assert.NoError(t, publisher(t, url, nil).Publish(t.Context(), m)[0], "publish")
	d, ok, err := rawChannel(t, url).Get(queue, true)
	assert.True(t, ok && err == nil, "Get")
	assert.True(t, d.MessageId == "m" && d.DeliveryMode == amqp.Persistent && d.Timestamp.Unix() == 1700000000 && d.Headers["retrysafe-key"] == "k", "%+v", d)
}
