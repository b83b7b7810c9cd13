package kafkaidem_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// deadLetterLarge dead-letters more than a process would like to hold in memory.
func (q *queue) deadLetterLarge(t *testing.T, n int) {
	t.Helper()
	uncompressed := kgo.ProducerBatchCompression(kgo.NoCompression())
	cl, err := kgo.NewClient(append([]kgo.Opt{uncompressed}, q.opts...)...)
	assert.NoError(t, err, "client")
	defer cl.Close()
	for i := range n {
		r := &kgo.Record{Topic: q.o.Topic + ".dead", Value: make([]byte, 900_000)}
		r.Headers = []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: fmt.Append(nil, i)}}
		assert.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr(), "produce")
	}
}

// countDeletions counts the requests that delete records.
func countDeletions(c *kfake.Cluster) *atomic.Int64 {
	var n atomic.Int64
	c.ControlKey(int16(kmsg.DeleteRecords), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// A walk that keeps everything writes nothing and deletes nothing, however much there is.
func TestListingWritesNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.deadLetterLarge(t, 100)
	deleted := countDeletions(q.c)
	assert.Equal(t, len(q.listDead(t)), 100, "dead letters")
	now := q.c.PartitionInfo(q.o.Topic+".dead", 0)
	assert.Equal(t, now.HighWatermark, 100, "records that were ever written")
	assert.Equal(t, now.LogStartOffset, 0, "the first record")
	assert.Equal(t, deleted.Load(), 0, "deletions")
}

// A walk removes messages by one deletion at its end, and moves only those that are kept before
// one.
func TestWalkDeletesOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.deadLetterAll(t, "1", "2", "3", "4", "5", "6")
	deleted := countDeletions(q.c)
	assert.NoError(t, q.remove(t, "1", "2", "3"), "Walk")
	assert.Equal(t, deleted.Load(), 1, "deletions")
	assert.Equal(t, q.deadCount(t), 6, "records that were ever written: nothing moved")
	assert.Equal(t, q.ids(t), "4 5 6", "dead letters")
	assert.NoError(t, q.remove(t, "5", "6"), "Walk")
	assert.Equal(t, deleted.Load(), 2, "deletions")
	assert.Equal(t, q.deadCount(t), 7, "records that were ever written: one moved")
	assert.Equal(t, q.ids(t), "4", "dead letters")
}

// A walk whose context ends deletes the messages that were removed until then.
func TestWalkIsLeft(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.deadLetterAll(t, "1", "2", "3", "4")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	err := q.deadLetters.Walk(ctx, func(ctx context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		switch p.Message.ID {
		case "1":
			return mqidem.Keep, nil
		case "2":
			return mqidem.Remove, nil
		}
		leave()
		return mqidem.Keep, ctx.Err()
	})
	assert.ErrorIs(t, err, context.Canceled, "Walk")
	assert.Equal(t, q.ids(t), "3 4 1", "dead letters")
}
