package rocketmqidem_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Any bytes are unchanged, also after a later try and a dead letter. A header may have the name of
// a property.
func TestContentKept(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), nil)
	s := q.openSource(t)
	for i, key := range []string{"", "plain", "\x00\x01\x02\xff\r\n", "ü"} {
		id := fmt.Sprint("\x01", i)
		m := outbox.Message{ID: id, Topic: q.o.Topic, Key: key, ContentType: "text/\x02plain", Payload: []byte("content"), Headers: map[string]string{
			"x": "1", "TAGS": "paid", "DELAY": "18", "UNIQ_KEY": "u", "retrysafe-id": "another", "retrysafe-tries": "7", "\xff": "\x01", "empty": "", "": "no name",
		}}
		same := func(d mqidem.Delivery, m *mqidem.Message) {
			t.Helper()
			assert.Equal(t, m.ID, id, "id")
			assert.Equal(t, m.Key, key, "key")
			assert.Equal(t, m.ContentType, "text/\x02plain", "content type")
			assert.Equal(t, string(m.Body), "content", "body")
			headers := map[string]string{}
			for name, value := range m.Headers {
				headers[name] = string(value)
			}
			assert.Equal(t, headers, map[string]string{
				"x": "1", "TAGS": "paid", "DELAY": "18", "UNIQ_KEY": "u", "retrysafe-id": "another", "retrysafe-tries": "7", "\xff": "\x01", "empty": "", "": "no name",
			}, "headers")
			assert.True(t, d == nil || !m.Published.IsZero(), "it says when the broker got it")
		}
		assert.NoError(t, q.pub.Publish(t.Context(), []outbox.Outgoing{{Message: m}})[0], "publish")
		d := receive(t, s, id)
		same(d, d.Message())
		assert.Equal(t, d.Message().Deliveries, 1, "deliveries")
		assert.NoError(t, d.Retry(t.Context(), 0), "Retry")
		d = receive(t, s, id)
		same(d, d.Message())
		assert.Equal(t, d.Message().Deliveries, 2, "deliveries")
		assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		p := q.listDead(t)[i]
		same(nil, p.Message)
		assert.NoError(t, q.deadLetters.Send(t.Context(), p.Message), "Send")
		d = receive(t, s, id)
		same(d, d.Message())
		assert.Equal(t, d.Message().Deliveries, 1, "deliveries")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// Messages of other programs have the id that their client gave them, and tags select them.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), func(o *rocketmqidem.Options, _ *rocketmqidem.TopicOptions) { o.Tags = "paid || sent" })
	p, err := producer.NewDefaultProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(q.servers.NameServers)), producer.WithInstanceName(q.o.Topic))
	assert.NoError(t, err, "producer")
	assert.NoError(t, p.Start(), "producer")
	defer func() { _ = p.Shutdown() }()
	ids := map[string]string{}
	for _, tag := range []string{"paid", "new", "sent", "new"} {
		m := primitive.NewMessage(q.o.Topic, []byte(tag)).WithTag(tag).WithKeys([]string{"order-7"}).WithShardingKey("customer-3")
		r, err := p.SendSync(t.Context(), m)
		assert.NoError(t, err, "send")
		ids[tag] = r.MsgID
	}
	s := q.openSource(t)
	for _, tag := range []string{"paid", "sent"} {
		d := receive(t, s, ids[tag])
		m := d.Message()
		assert.True(t, m.Key == "customer-3" && string(m.Body) == tag && m.Header("TAGS") == tag && m.Header("KEYS") == "order-7", "the message: %+v", m)
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	assert.NoError(t, s.Close(), "Close")
	q.publishTagged(t, "sent", "last")
	d := receive(t, q.openSource(t), "last")
	assert.Equal(t, len(d.Message().Body), 0, "bytes of an empty body")
	assert.NoError(t, d.Ack(t.Context()), "Ack: what was left out is not read again")
}

func (q *queue) publishTagged(tb testing.TB, tag, id string) {
	tb.Helper()
	m := outbox.Message{ID: id, Topic: q.o.Topic, Headers: map[string]string{"TAGS": tag}}
	assert.NoError(tb, q.pub.Publish(tb.Context(), []outbox.Outgoing{{Message: m}})[0], "publish")
}

// A walk of several pages does not see messages that were added after its start, and shows
// unreadable ones. What a walk keeps, the next one shows in the same order.
func TestWalks(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), nil)
	assert.NoError(t, q.deadLetters.Walk(t.Context(), nil), "a walk of what is not there")
	s := q.openSource(t)
	const n = 50
	assert.NoError(t, q.deadLetters.Send(t.Context(), &mqidem.Message{Source: "%DLQ%" + q.o.Group, Body: []byte("of another program")}), "a dead letter without a reason")
	for i := range n {
		q.publish(t, fmt.Sprint(i))
		assert.NoError(t, receive(t, s, fmt.Sprint(i)).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
	}
	q.publish(t, "late")
	late := receive(t, s, "late")
	seen := 0
	assert.NoError(t, q.deadLetters.Walk(t.Context(), func(ctx context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		if seen++; seen == 1 {
			assert.Equal(t, p.Reason.Why, mqidem.DeadUnreadable, "why")
			assert.Equal(t, p.Message.Source, q.o.Topic, "source")
			assert.NoError(t, late.Dead(ctx, mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
			return mqidem.Remove, nil
		}
		assert.Equal(t, p.Message.ID, fmt.Sprint(seen-2), "the order")
		return mqidem.Verdict(seen % 2), nil
	}), "Walk")
	assert.Equal(t, seen, n+1, "messages that the walk has seen")
	left := q.listDead(t)
	assert.Equal(t, len(left), n/2+1, "messages that are left")
	assert.Equal(t, left[0].Message.ID, "late", "the first: the others were written again behind it")
	assert.Equal(t, left[1].Message.ID, "0", "the second")
	assert.NoError(t, q.deadLetters.Walk(t.Context(), func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) { return mqidem.Remove, nil }), "Walk")
	assert.Equal(t, len(q.listDead(t)), 0, "messages that are left")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, q.deadLetters.Walk(ended, nil), context.Canceled, "a walk whose context has ended")
	assert.ErrorIs(t, q.deadLetters.Send(ended, &mqidem.Message{Source: q.o.Topic}), context.Canceled, "Send whose context has ended")
	err := q.deadLetters.Send(t.Context(), &mqidem.Message{Source: "nothing"})
	assert.Contains(t, err.Error(), "it stays in the dead-letter queue: the topic is not there", "Send to a topic that is not there")
}

// A Java producer may compress bodies in three ways.
func TestJavaProducerCompresses(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), nil)
	said, err := q.r.Command(t, "testdata/Produce.java", q.r.NameServer, q.o.Topic).CombinedOutput()
	assert.NoError(t, err, "the producer: %s", said)
	s := q.openSource(t)
	var found []string
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		d, err := s.Receive(ctx)
		cancel()
		assert.NoError(t, err, "Receive")
		m := d.Message()
		kind := m.Header("compression")
		assert.Equal(t, string(m.Body), strings.Repeat("compressed by "+kind+" ", 1000), "the body")
		found = append(found, kind)
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	slices.Sort(found)
	assert.Equal(t, found, []string{"LZ4", "ZLIB", "ZSTD"}, "kinds of compression")
}
