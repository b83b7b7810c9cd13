package kafkaidem_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// incompressible returns bytes that no compression makes smaller.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// produce writes a record with a compression.
func (q *queue) produce(t *testing.T, id string, body []byte, codec kgo.CompressionCodec) {
	t.Helper()
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, q.opts...), kgo.ProducerBatchMaxBytes(32<<20), kgo.ProducerBatchCompression(codec))...)
	assert.NoError(t, err, "client")
	defer cl.Close()
	r := &kgo.Record{Topic: q.o.Topic, Value: body, Headers: []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: []byte(id)}}}
	assert.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr(), "produce")
}

// Every message that can be read can be dead-lettered, kept by a walk that removes others, and
// redriven: also if the topic accepts more than the client by default, and if another producer
// compresses better.
func TestDeadLetterLarge(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) {
			c.Configs = map[string]string{"max.message.bytes": "4194304"}
		})
		bodies := map[string][]byte{"full": incompressible(4<<20 - 100), "dense": hex.AppendEncode(nil, incompressible(3<<20))}
		why := mqidem.Reason{Why: mqidem.DeadTries, Error: strings.Repeat("e", 1000), Tries: 3}
		q.produce(t, "first", nil, kgo.NoCompression())
		q.produce(t, "full", bodies["full"], kgo.NoCompression())
		q.produce(t, "dense", bodies["dense"], kgo.ZstdCompression())
		q.produce(t, "last", nil, kgo.NoCompression())
		s := q.open(t)
		for _, id := range []string{"first", "full", "dense", "last"} {
			assert.NoError(t, receive(t, s, id).Dead(t.Context(), why), "Dead of %s", id)
		}
		assert.NoError(t, q.remove(t, "first", "last"), "Walk")
		assert.Equal(t, q.deadCount(t), 6, "records that were ever written: the large ones have moved")
		all := q.listDead(t)
		assert.Equal(t, len(all), 2, "dead letters")
		for _, p := range all {
			assert.True(t, bytes.Equal(p.Message.Body, bodies[p.Message.ID]), "the body of %s is as it was", p.Message.ID)
			assert.Equal(t, p.Reason, why, "reason")
			assert.NoError(t, q.deadLetters.Send(t.Context(), p.Message), "Send")
			assert.NoError(t, receive(t, s, p.Message.ID).Ack(t.Context()), "Ack")
		}
	})
}

// If the topic of dead letters accepts no more than the topic, the reason is cut as far as needed.
func TestDeadLetterFuller(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.produce(t, "1", incompressible(1048588-300), kgo.NoCompression())
		why := mqidem.Reason{Why: mqidem.DeadTries, Error: strings.Repeat("e", 1000), Tries: 3, Consumer: "stock", Key: strings.Repeat("k", 500)}
		assert.NoError(t, receive(t, q.open(t), "1").Dead(t.Context(), why), "Dead")
		assert.Equal(t, q.listDead(t)[0].Reason, mqidem.Reason{Why: mqidem.DeadTries, Tries: 3, Cut: mqidem.CutReason}, "reason")
	})
}

// Messages that are dead-lettered concurrently do not make one batch that is too large.
func TestDeadLetterManyLarge(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, setUnordered)
		const n = 12
		s := q.open(t)
		settled := make(chan error, n)
		var held []mqidem.Delivery
		for range n {
			q.produce(t, "x", incompressible(500_000), kgo.NoCompression())
			held = append(held, receive(t, s, "x"))
		}
		for _, d := range held {
			go func() {
				settled <- d.Dead(context.WithoutCancel(t.Context()), mqidem.Reason{Why: mqidem.DeadTries, Error: "kept"})
			}()
		}
		for range n {
			assert.NoError(t, <-settled, "Dead")
		}
		all := q.listDead(t)
		assert.Equal(t, len(all), n, "dead letters")
		for _, p := range all {
			assert.Equal(t, p.Reason.Error, "kept", "the error")
		}
	})
}

func TestCreateRefusesSize(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		err := kafkaidem.Create(t.Context(), &kafkaidem.TopicOptions{Configs: map[string]string{"max.message.bytes": "1MB"}}, &q.o, q.opts...)
		assert.True(t, err != nil && strings.Contains(err.Error(), "no number of bytes; nothing was created"), "Create: %v", err)
	})
}
