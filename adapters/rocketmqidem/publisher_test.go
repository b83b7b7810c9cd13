package rocketmqidem_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// outgoing returns messages without a key.
func outgoing(topic string, ids ...string) (b []outbox.Outgoing) {
	for _, id := range ids {
		b = append(b, outgoingMessage(topic, "", id))
	}
	return b
}

// Many messages of several keys are sent in few requests. Those of a key arrive in order.
func TestPublishMany(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), func(o *rocketmqidem.Options, to *rocketmqidem.TopicOptions) { o.Ordered, to.Queues = true, 4 })
	const n, keys = 1000, 7
	var b []outbox.Outgoing
	for i := range n {
		b = append(b, outgoingMessage(q.o.Topic, fmt.Sprint("key", i%keys), fmt.Sprint(i)))
	}
	for i, err := range q.pub.Publish(t.Context(), b) {
		assert.NoError(t, err, "message %d", i)
	}
	s, next := q.openSource(t), map[string]int{}
	for i := range keys {
		next[fmt.Sprint("key", i)] = i
	}
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		d, err := s.Receive(ctx)
		cancel()
		assert.NoError(t, err, "Receive")
		key := d.Message().Key
		assert.Equal(t, d.Message().ID, fmt.Sprint(next[key]), "the next of %s", key)
		next[key] += keys
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// A message that the broker refuses holds up the later messages of its key, and no others.
func TestPublishOrder(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), nil)
	b := outgoing(q.o.Topic, "1", "2", "3", "4")
	b[0].Key, b[1].Key, b[2].Key = "k", "k", "other"
	b[0].Headers = map[string]string{"large": strings.Repeat("x", 40_000)}
	b = append(b, outgoing("nothing", "5")...)
	errs := q.pub.Publish(t.Context(), b)
	assert.Contains(t, errs[0].Error(), "permanent: rocketmqidem: not confirmed: the broker takes no such message", "too many headers")
	assert.ErrorIs(t, errs[1], outbox.ErrHeldUp, "the next of its key")
	assert.NoError(t, errs[2], "another key")
	assert.NoError(t, errs[3], "no key")
	assert.Contains(t, errs[4].Error(), "rocketmqidem: not confirmed: the topic is not there", "a topic that is not there")
	assert.True(t, !strings.HasPrefix(errs[4].Error(), "permanent") && !strings.HasPrefix(errs[4].Error(), "the broker"), "somebody may create it: %v", errs[4])
	assert.True(t, q.pub.KeepsOrder(), "KeepsOrder")
	s := q.openSource(t)
	got := map[string]bool{}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		d, err := s.Receive(ctx)
		cancel()
		assert.NoError(t, err, "Receive")
		got[d.Message().ID] = true
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	assert.Equal(t, got, map[string]bool{"3": true, "4": true}, "what arrived")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, q.pub.Publish(ended, outgoing(q.o.Topic, "7"))[0], context.Canceled, "Publish whose context has ended")
}

// Mistakes are reported at once, with advice.
func TestMistakes(t *testing.T) {
	t.Parallel()
	r := sharedBroker(t)
	servers := &rocketmqidem.Servers{NameServers: []string{r.NameServer}}
	ok := func() *rocketmqidem.Options { return &rocketmqidem.Options{Topic: "t", Group: "g", Logger: quiet} }
	for want, o := range map[string]*rocketmqidem.Options{
		"Topic and Options.Group are required": {Topic: "t"},
		"cannot be negative":                   {Topic: "t", Group: "g", KeptFor: -1},
		"not in rising order":                  {Topic: "t", Group: "g", DelayLevels: []time.Duration{2, 1}},
		"are the same":                         {Topic: "t", Group: "g", DeadTopic: "t"},
		"use 10ms to 10s":                      {Topic: "t", Group: "g", CommitEvery: time.Minute},
	} {
		_, err := rocketmqidem.Open(t.Context(), servers, o)
		assert.True(t, err != nil, "Open")
		assert.Contains(t, err.Error(), want, "Open")
	}
	_, err := rocketmqidem.Open(t.Context(), nil, ok())
	assert.Contains(t, err.Error(), "Servers.NameServers is required", "Open")
	_, err = rocketmqidem.NewPublisher(&rocketmqidem.Servers{}, quiet)
	assert.Contains(t, err.Error(), "Servers.NameServers is required", "NewPublisher")
	err = rocketmqidem.Create(t.Context(), servers, nil, ok())
	assert.Contains(t, err.Error(), "TopicOptions.Brokers is required", "Create")
	_, err = rocketmqidem.Open(t.Context(), servers, &rocketmqidem.Options{Topic: "missing", Group: "g", Logger: quiet})
	assert.Contains(t, err.Error(), `cannot open the topics ["missing" "%DLQ%g"]; Create makes them`, "Open")
	_, err = rocketmqidem.OpenDeadLetters(t.Context(), servers, ok())
	assert.Contains(t, err.Error(), "Create makes them", "OpenDeadLetters")
}
