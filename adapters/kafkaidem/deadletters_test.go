package kafkaidem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// deadLetterAll dead-letters messages.
func (q *queue) deadLetterAll(t *testing.T, ids ...string) {
	t.Helper()
	q.publish(t, ids...)
	s := q.open(t)
	for _, id := range ids {
		assert.NoError(t, receive(t, s, id).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
	}
	assert.NoError(t, s.Close(), "Close")
}

// ids returns the ids of the dead letters.
func (q *queue) ids(t *testing.T) string {
	t.Helper()
	var all []string
	for _, p := range q.listDead(t) {
		all = append(all, p.Message.ID)
	}
	return strings.Join(all, " ")
}

// remove removes the dead letters with these ids.
func (q *queue) remove(t *testing.T, ids ...string) error {
	t.Helper()
	return q.deadLetters.Walk(t.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		for _, id := range ids {
			if p.Message.ID == id {
				return mqidem.Remove, nil
			}
		}
		return mqidem.Keep, nil
	})
}

// deadCount returns how many records the topic of dead letters has ever had.
func (q *queue) deadCount(tb testing.TB) int64 {
	tb.Helper()
	_, end := q.offsets(tb, q.o.Topic+".dead")
	return end
}

// A walk that removes nothing writes nothing. One that removes messages keeps the order of the
// others.
func TestWalkWrites(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.deadLetterAll(t, "1", "2", "3", "4")
		assert.Equal(t, q.ids(t), "1 2 3 4", "dead letters")
		assert.Equal(t, q.deadCount(t), 4, "records that were written")
		assert.NoError(t, q.remove(t, "3"), "Walk")
		assert.Equal(t, q.ids(t), "1 2 4", "dead letters")
		assert.Equal(t, q.deadCount(t), 7, "records that were written")
		assert.NoError(t, q.remove(t, "1", "2"), "Walk")
		assert.Equal(t, q.ids(t), "4", "dead letters")
		assert.NoError(t, q.remove(t, "4"), "Walk")
		assert.Equal(t, q.ids(t), "", "dead letters")
		q.deadLetterAll(t, "5")
		assert.Equal(t, q.ids(t), "5", "dead letters")
	})
}

// Removed messages stay removed without state that a broker forgets after a time, such as offsets
// of a group. A topic of dead letters that was created again hides nothing.
func TestWalkRests(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.deadLetterAll(t, "1", "2", "3")
		assert.NoError(t, q.remove(t, "1", "2"), "Walk")
		first, _ := q.offsets(t, q.o.Topic+".dead")
		assert.Equal(t, first, 2, "the first record; the one that is kept follows it")
		cl, err := kgo.NewClient(q.opts...)
		assert.NoError(t, err, "client")
		defer cl.Close()
		forget := kmsg.NewPtrDeleteGroupsRequest()
		forget.Groups = []string{q.o.Group, q.o.Group + ".dead"}
		_, err = forget.RequestWith(t.Context(), cl)
		assert.NoError(t, err, "delete the groups")
		assert.Equal(t, q.ids(t), "3", "dead letters")
		q.deleteTopic(t, q.o.Topic+".dead")
		assert.NoError(t, kafkaidem.Create(t.Context(), nil, &q.o, q.opts...), "Create")
		again, err := kafkaidem.OpenDeadLetters(t.Context(), &q.o, q.opts...)
		assert.NoError(t, err, "OpenDeadLetters")
		t.Cleanup(func() { _ = again.Close() })
		q.deadLetters = again
		odd := &kgo.Record{Topic: q.o.Topic + ".dead", Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: []byte("4")}}}
		assert.NoError(t, cl.ProduceSync(t.Context(), odd).FirstErr(), "produce")
		assert.Equal(t, q.ids(t), "4", "dead letters")
	})
}

// A user without the permission to delete gets an error that says what is missing, and nothing is
// lost.
func TestWalkMayNotDelete(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.deadLetterAll(t, "1")
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Topic: q.o.Topic + ".dead", Err: kerr.TopicAuthorizationFailed})
	err := q.remove(t, "1")
	assert.ErrorIs(t, err, kerr.TopicAuthorizationFailed, "Walk")
	assert.Contains(t, err.Error(), "allow it by an ACL", "Walk")
	assert.Equal(t, q.ids(t), "1", "dead letters")
}

// A walk that dies between its two writes shows a message twice, and loses none.
func TestWalkDies(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.deadLetterAll(t, "1", "2", "3")
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Topic: q.o.Topic + ".dead", Err: kerr.UnknownServerError})
	err := q.remove(t, "2")
	assert.Contains(t, err.Error(), "were dealt with, and are shown again by the next walk", "Walk")
	assert.Equal(t, q.ids(t), "1 2 3 1 3", "dead letters")
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic + ".dead", Err: kerr.PolicyViolation})
	err = q.remove(t, "2")
	assert.Contains(t, err.Error(), "could not be kept after one that was dealt with", "Walk")
	assert.Equal(t, q.ids(t), "1 2 3 1 3", "dead letters")
	assert.NoError(t, q.remove(t, "2"), "Walk")
	assert.Equal(t, q.ids(t), "1 3 1 3", "dead letters")
}

// A walk does not see messages that were added after its start. It ends with an error of see and
// with its context, and shows unreadable dead letters.
func TestWalks(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		assert.Equal(t, q.ids(t), "", "dead letters")
		cl, err := kgo.NewClient(q.opts...)
		assert.NoError(t, err, "client")
		defer cl.Close()
		odd := &kgo.Record{Topic: q.o.Topic + ".dead", Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: mqidem.HeaderDead, Value: []byte("{")}}}
		assert.NoError(t, cl.ProduceSync(t.Context(), odd).FirstErr(), "produce")
		q.deadLetterAll(t, "1")
		seen := 0
		stop := errors.New("enough")
		err = q.deadLetters.Walk(t.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if seen++; seen == 1 {
				assert.Equal(t, p.Reason.Why, mqidem.DeadUnreadable, "why")
				assert.Equal(t, p.Message.Source, q.o.Topic, "source")
				q.deadLetterAll(t, "late")
				return mqidem.Remove, nil
			}
			assert.Equal(t, p.Message.ID, "1", "the second one")
			return mqidem.Remove, stop
		})
		assert.ErrorIs(t, err, stop, "Walk")
		assert.Equal(t, q.ids(t), "1 late", "dead letters")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, q.deadLetters.Walk(ended, nil), context.Canceled, "a walk whose context has ended")
		assert.ErrorIs(t, q.deadLetters.Send(ended, &mqidem.Message{Source: q.o.Topic}), context.Canceled, "Send whose context has ended")
		err = q.deadLetters.Send(t.Context(), &mqidem.Message{Source: "nowhere"})
		assert.Contains(t, err.Error(), "it stays in the dead-letter queue: the topic is not there; create it", "Send to a topic that is not there")
	})
}

// A walk ends although the messages that it was to show were deleted meanwhile.
func TestWalkTailGone(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.deadLetterAll(t, "1", "2", "3", "4", "5")
		cl, err := kgo.NewClient(q.opts...)
		assert.NoError(t, err, "client")
		defer cl.Close()
		// one at a time
		slow, err := kafkaidem.OpenDeadLetters(t.Context(), &q.o, append([]kgo.Opt{kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1)}, q.opts...)...)
		assert.NoError(t, err, "OpenDeadLetters")
		defer slow.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		seen := 0
		assert.NoError(t, slow.Walk(ctx, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if seen++; seen == 1 {
				req := kmsg.NewPtrDeleteRecordsRequest()
				req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: q.o.Topic + ".dead", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
				_, err := req.RequestWith(ctx, cl)
				assert.NoError(t, err, "delete")
			}
			return mqidem.Keep, nil
		}), "Walk")
		assert.True(t, seen < 5, "what was deleted is not shown; the walk has seen %d", seen)
	})
}

// Any bytes are unchanged, also after a dead letter and a walk that keeps it.
func TestContentKept(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.deadLetterAll(t, "before")
		s := q.open(t)
		m := outbox.Message{ID: "1", Topic: q.o.Topic, Key: "\x00\xff\r\n", ContentType: "text/plain", Payload: []byte("content"), Headers: map[string]string{"x": "ü", "content-type": "no"}}
		assert.NoError(t, q.pub.Publish(t.Context(), []outbox.Outgoing{{Message: m}})[0], "publish")
		same := func(m *mqidem.Message) {
			t.Helper()
			assert.Equal(t, fmt.Sprintf("%q %s %s %v", m.Key, m.ContentType, m.Body, m.Source == q.o.Topic), `"\x00\xff\r\n" text/plain content true`, "the message")
			assert.Equal(t, m.Headers, map[string][]byte{"x": []byte("ü")}, "headers")
		}
		d := receive(t, s, "1")
		same(d.Message())
		assert.True(t, !d.Message().Published.IsZero(), "it says when the broker got it")
		why := mqidem.Reason{Why: mqidem.DeadTries, Tries: 3}
		assert.NoError(t, d.Dead(t.Context(), why), "Dead")
		assert.NoError(t, s.Close(), "Close")
		q.deadLetterAll(t, "after")
		assert.NoError(t, q.remove(t, "before", "after"), "Walk")
		assert.Equal(t, q.deadCount(t), 4, "records that were ever written: the one that is kept has moved")
		p := q.listDead(t)[0]
		same(p.Message)
		assert.Equal(t, p.Reason, why, "reason")
		assert.NoError(t, q.deadLetters.Send(t.Context(), p.Message), "Send")
		d = receive(t, q.open(t), "1")
		same(d.Message())
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	})
}

// A message that fills the limit becomes a dead letter without the text of its error, which would
// not fit.
func TestDeadLetterFull(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		body := incompressible(1048588 - 400)
		q.produce(t, "1", body, kgo.NoCompression())
		d := receive(t, q.open(t), "1")
		assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries, Error: strings.Repeat("e", 1000), Tries: 3}), "Dead")
		p := q.listDead(t)[0]
		assert.True(t, bytes.Equal(p.Message.Body, body), "the body is as it was")
		assert.Equal(t, p.Reason, mqidem.Reason{Why: mqidem.DeadTries, Tries: 3}, "reason")
	})
}
