package kafkaidem_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// A failed message holds up the later messages of its key, and no others: none of the later ones
// reaches the broker.
func TestPublishOrder(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	large := outgoingMessage(q.o.Topic, "k", "1")
	large.Payload = make([]byte, 2<<20)
	batch := []outbox.Outgoing{
		large, outgoingMessage(q.o.Topic, "k", "2"), outgoingMessage(q.o.Topic, "other", "3"), outgoingMessage(q.o.Topic, "other", "4"), outgoingMessage(q.o.Topic, "", "5"), outgoingMessage(q.o.Topic, "k", "6"),
	}
	errs := q.pub.Publish(t.Context(), batch)
	assert.Contains(t, errs[0].Error(), "permanent: kafkaidem: not confirmed: the message is larger", "one that is too large")
	for _, i := range []int{1, 5} {
		assert.ErrorIs(t, errs[i], outbox.ErrHeldUp, "a later one of its key")
	}
	for _, i := range []int{2, 3, 4} {
		assert.NoError(t, errs[i], "one of another key")
	}
	assert.True(t, q.pub.KeepsOrder(), "KeepsOrder")
	// The same holds if the broker refuses a message and the client has sent on.
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic, Err: kerr.InvalidRecord})
	errs = q.pub.Publish(t.Context(), batch[1:2:2])
	assert.Contains(t, errs[0].Error(), "permanent: kafkaidem: not confirmed: INVALID_RECORD", "one that is refused")
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic, Err: kerr.PolicyViolation})
	errs = q.pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, "k", "7"), outgoingMessage(q.o.Topic, "k", "8")})
	assert.ErrorIs(t, errs[0], kerr.PolicyViolation, "one that is refused")
	assert.ErrorIs(t, errs[1], outbox.ErrHeldUp, "the later one of its key")
	s := q.open(t)
	seen := map[string]bool{}
	for range 3 {
		d, err := s.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		seen[d.Message().ID] = true
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	assert.Equal(t, seen, map[string]bool{"3": true, "4": true, "5": true}, "what is there")
	expectNothing(t, s, 100*time.Millisecond)
}

// Messages of one key keep their order in a batch. Transient faults change no order and cause no
// duplicates.
func TestPublishThroughFaults(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.publish(t, "0")
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic, Err: kerr.NotLeaderForPartition, Count: 2})
	q.publish(t, "1", "2", "3")
	// it is done all the same
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic, Err: kerr.RequestTimedOut, Count: 1})
	q.publish(t, "4", "5")
	s := q.open(t)
	for _, id := range []string{"0", "1", "2", "3", "4", "5"} {
		assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack")
	}
	expectNothing(t, s, 100*time.Millisecond)
}

// Errors are classified for the outbox.
func TestPublishErrors(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	q := newQueue(t, c, nil)
	q.publish(t, "0")
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic + ".dead", Err: kerr.InvalidTopicException})
	errs := q.pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage("nowhere", "", "1"), outgoingMessage(q.o.Topic+".dead", "", "2"), outgoingMessage(q.o.Topic, "", "3")})
	plain := func(err error, part, what string) {
		t.Helper()
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "kafkaidem: not confirmed: "+part), "%s is neither permanent nor of the broker: %v", what, err)
	}
	plain(errs[0], "the topic is not there; create it", "a topic that is not there")
	assert.Contains(t, errs[1].Error(), "permanent: kafkaidem: not confirmed: INVALID_TOPIC", "a topic that cannot be")
	assert.NoError(t, errs[2], "one behind them")
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic, Err: kerr.TopicAuthorizationFailed})
	plain(q.pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, "", "4")})[0], "the user may not do this; allow it by an ACL", "a topic that is not allowed")

	ended, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stuck := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic, Err: kerr.NotLeaderForPartition, Count: -1})
	began := time.Now()
	err := q.pub.Publish(ended, []outbox.Outgoing{outgoingMessage(q.o.Topic, "k", "5"), outgoingMessage(q.o.Topic, "k", "6")})
	assert.Contains(t, err[0].Error(), "the broker is not available: ", "a leader that is not there")
	assert.True(t, err[1] != nil && time.Since(began) < 5*time.Minute, "Publish ends with its context, and took %v", time.Since(began))
	stuck.Remove()

	soon, err2 := kafkaidem.NewPublisher(append(append([]kgo.Opt{}, q.opts...), kgo.RecordDeliveryTimeout(time.Second))...)
	assert.NoError(t, err2, "publisher")
	defer soon.Close()
	c.Close()
	err = soon.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, "", "7")})
	assert.Contains(t, err[0].Error(), "the broker is not available: kafkaidem: not confirmed: ", "a broker that is not there")
}
