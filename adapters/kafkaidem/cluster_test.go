package kafkaidem_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// leader returns the node that leads a partition.
func (q *queue) leader(tb testing.TB, k *servertest.Kafka, topic string, partition int32) *servertest.KafkaNode {
	tb.Helper()
	var found *servertest.KafkaNode
	eventually(tb, "the partition has a leader", func() bool {
		resp, err := q.describe(tb, topic)
		if err != nil {
			return false
		}
		for _, p := range resp.Topics[0].Partitions {
			for _, b := range resp.Brokers {
				for _, n := range k.Nodes {
					if p.Partition == partition && p.Leader == b.NodeID && strings.HasSuffix(n.Addr, fmt.Sprint(":", b.Port)) {
						found = n
					}
				}
			}
		}
		return found != nil
	})
	return found
}

// describe returns what the brokers report of a topic.
func (q *queue) describe(tb testing.TB, topic string) (*kmsg.MetadataResponse, error) {
	tb.Helper()
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), q.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	return resp, err
}

// awaitReplicas waits until partition 0 of the topics has all its replicas again.
func (q *queue) awaitReplicas(tb testing.TB, n int, topics ...string) {
	tb.Helper()
	for _, topic := range topics {
		eventually(tb, "the replicas of "+topic+" are in sync", func() bool {
			resp, err := q.describe(tb, topic)
			return err == nil && len(resp.Topics[0].Partitions) > 0 && len(resp.Topics[0].Partitions[0].ISR) == n
		})
	}
}

// TestKafkaCluster disturbs the nodes of a cluster, by both protocols of groups.
func TestKafkaCluster(t *testing.T) {
	t.Parallel()
	k := servertest.StartKafka(t, 3, longerSession)
	for name, group := range map[string][]kgo.Opt{"the consumers assign": nil, "the brokers assign": brokersAssign} {
		for what, test := range map[string]func(*testing.T, *servertest.Kafka, *queue){
			"the leader is killed": testLeaderKilled, "the leader hangs": testLeaderHangs, "the coordinator is killed": testCoordinatorKilled,
		} {
			t.Run(name+", "+what, func(t *testing.T) { // not at once: they disturb the same nodes
				defer restartAll(t, k)
				test(t, k, newQueue(t, cluster{k, group}, nil))
			})
		}
	}
	t.Run("replicas are missing", func(t *testing.T) { testReplicasMissing(t, k, newQueue(t, cluster{k, nil}, nil)) })
}

// restartAll starts what a failed test has left dead or hanging.
func restartAll(t *testing.T, k *servertest.Kafka) {
	t.Helper()
	for _, n := range k.Nodes {
		n.Resume()
		if !n.Running() {
			n.Restart(t)
		}
	}
}

// settleAll receives and acks until the group has committed the end of the topic. It returns the
// ids that it received. A session that ends meanwhile, since the machine is slow, delivers again
// what was not committed.
func (q *queue) settleAll(tb testing.TB, s *kafkaidem.Source) (received []string) {
	tb.Helper()
	eventually(tb, "all is committed", func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), 100*time.Millisecond)
		defer cancel()
		if d, err := s.Receive(ctx); err == nil {
			received = append(received, d.Message().ID)
			err := d.Ack(ctx)
			assert.True(tb, err == nil || isStale(err), "Ack: %v", err)
		}
		end, err := q.askOffset(tb, q.o.Topic, -1)
		return err == nil && q.committedOffset(tb) == end
	})
	return received
}

// testLeaderKilled: messages that were confirmed are there under the next leader, and what was
// committed is not redelivered.
func testLeaderKilled(t *testing.T, k *servertest.Kafka, q *queue) {
	q.publishAgain(t, "1")
	s := q.open(t)
	q.settleAll(t, s)
	n := q.leader(t, k, q.o.Topic, 0)
	n.Kill()
	q.publishAgain(t, "2")
	received := q.settleAll(t, s)
	n.Restart(t)
	q.awaitReplicas(t, 3, q.o.Topic, q.o.Topic+".dead", "__consumer_offsets")
	q.publishAgain(t, "3")
	received = append(received, q.settleAll(t, s)...)
	assert.Equal(t, slices.Compact(received), []string{"2", "3"}, "what is delivered after the leader was killed")
}

// testLeaderHangs: the same, for a leader that does not answer and then goes on.
func testLeaderHangs(t *testing.T, k *servertest.Kafka, q *queue) {
	q.publishAgain(t, "1")
	s := q.open(t)
	held := receive(t, s, "1")
	n := q.leader(t, k, q.o.Topic, 0)
	n.Pause()
	defer n.Resume()
	published := make(chan []error, 1)
	began := time.Now()
	go func() {
		published <- q.pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, "k", "2")})
	}()
	errs := <-published
	assert.True(t, time.Since(began) < 2*time.Minute, "Publish ends by itself, after %v", time.Since(began))
	n.Resume()
	q.awaitReplicas(t, 3, q.o.Topic, q.o.Topic+".dead", "__consumer_offsets")
	// the group may have a new leader too, which has not heard of this consumer
	settled := held.Ack(t.Context())
	assert.True(t, settled == nil || isStale(settled), "Ack: %v", settled)
	q.publishAgain(t, "3")
	// what was not confirmed may be there or not, and what was stale is redelivered
	seen := map[string]bool{}
	for !seen["3"] {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		d, err := s.Receive(ctx)
		cancel()
		assert.NoError(t, err, "Receive, behind %v", seen)
		seen[d.Message().ID] = true
		if err := d.Ack(t.Context()); err != nil {
			assert.True(t, isStale(err), "Ack: %v", err)
		}
	}
	assert.True(t, seen["2"] || errs[0] != nil, "a message that was confirmed is there")
	eventually(t, "all is committed", func() bool { _, end := q.offsets(t, q.o.Topic); return q.committedOffset(t) == end })
}

// testCoordinatorKilled: the group goes on under its next coordinator.
func testCoordinatorKilled(t *testing.T, k *servertest.Kafka, q *queue) {
	q.publishAgain(t, "1")
	s := q.open(t)
	q.settleAll(t, s)
	q.publishAgain(t, "2")
	n := q.leader(t, k, "__consumer_offsets", 0)
	n.Kill()
	received := q.settleAll(t, s)
	n.Restart(t)
	q.awaitReplicas(t, 3, q.o.Topic, q.o.Topic+".dead", "__consumer_offsets")
	q.publishAgain(t, "3")
	received = append(received, q.settleAll(t, s)...)
	assert.Equal(t, slices.Compact(received), []string{"2", "3"}, "what is delivered after the coordinator was killed")
}

// testReplicasMissing: a message that too few replicas have is not confirmed, and goes back to the
// outbox in bounded time. A message that cannot become a dead letter stays with its consumer.
func testReplicasMissing(t *testing.T, k *servertest.Kafka, q *queue) {
	q.o.Timeout = 10 * time.Second
	s := q.open(t)
	q.publishAgain(t, "1")
	d := receive(t, s, "1")
	leads := q.leader(t, k, q.o.Topic, 0)
	var down []*servertest.KafkaNode
	for _, n := range k.Nodes {
		if n != leads {
			down = append(down, n)
			n.Kill()
		}
	}
	began := time.Now()
	err := q.pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, "k", "2")})[0]
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), "the broker is not available: "), "Publish: %v", err)
	assert.True(t, time.Since(began) < 2*time.Minute, "Publish ends by itself, after %v", time.Since(began))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	dead := d.Dead(ctx, mqidem.Reason{Why: mqidem.DeadPoison})
	cancel()
	assert.True(t, dead != nil, "Dead without replicas")
	for _, n := range down {
		n.Restart(t)
	}
	q.awaitReplicas(t, 3, q.o.Topic, q.o.Topic+".dead", "__consumer_offsets")
	q.publishAgain(t, "3")
	eventually(t, "the last message comes", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if dead != nil && !isStale(dead) { // it is neither settled nor redelivered
			dead = d.Dead(ctx, mqidem.Reason{Why: mqidem.DeadPoison})
			return false
		}
		d, err := s.Receive(ctx)
		if err != nil {
			return false
		}
		_ = d.Ack(ctx)
		return d.Message().ID == "3"
	})
}

// A message of an aborted transaction is not delivered, and what a transaction leaves in the
// partition is not reported as lost.
func TestTransactions(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedKafka(t), nil)
	producer, err := kgo.NewClient(append([]kgo.Opt{kgo.TransactionalID(q.o.Topic)}, q.opts...)...)
	assert.NoError(t, err, "client")
	defer producer.Close()
	send := func(id string, commit kgo.TransactionEndTry) {
		t.Helper()
		assert.NoError(t, producer.BeginTransaction(), "begin")
		r := &kgo.Record{Topic: q.o.Topic, Headers: []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: []byte(id)}}}
		assert.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr(), "produce")
		assert.NoError(t, producer.EndTransaction(t.Context(), commit), "end")
	}
	s := q.open(t)
	send("aborted", kgo.TryAbort)
	send("committed", kgo.TryCommit)
	assert.NoError(t, receive(t, s, "committed").Ack(t.Context()), "Ack")
	send("aborted too", kgo.TryAbort)
	assert.NoError(t, s.Close(), "Close")
	send("next", kgo.TryCommit)
	s = q.open(t)
	assert.NoError(t, receive(t, s, "next").Ack(t.Context()), "Ack")
	expectNothing(t, s, 500*time.Millisecond)
}

// Compaction leaves the newest message of each key. What it removes is not reported as lost, since
// the topic is meant to lose it.
func TestCompaction(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedKafka(t), func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) {
		c.Configs = map[string]string{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"}
	})
	q.publish(t, "1")
	s := q.open(t)
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
	q.publish(t, "2", "3")
	count := func() (n int) {
		reader, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumeTopics(q.o.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, q.opts...)...)
		assert.NoError(t, err, "client")
		defer reader.Close()
		for _, end := q.offsets(t, q.o.Topic); ; {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got := reader.PollFetches(ctx)
			cancel()
			last := false
			got.EachRecord(func(r *kgo.Record) { n, last = n+1, last || r.Offset == end-1 })
			if last {
				return n
			}
		}
	}
	i := 4
	eventually(t, "older messages are compacted", func() bool {
		<-time.After(200 * time.Millisecond)
		q.publish(t, fmt.Sprint(i)) // a segment is only compacted when there is a later one
		i++
		return count() < i-1
	})
	s = q.open(t)
	for d := mqidem.Delivery(nil); d == nil || d.Message().ID != fmt.Sprint(i-1); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var err error
		d, err = s.Receive(ctx)
		cancel()
		assert.NoError(t, err, "Receive")
		_, lost := d.(mqidem.Lost)
		assert.True(t, !lost, "a report of a topic that is compacted")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// Records that were removed because of their age are reported.
func TestRetention(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedKafka(t), func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) {
		c.Configs = map[string]string{"segment.ms": "100"}
	})
	q.publish(t, "1")
	s := q.open(t)
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
	q.publish(t, "2", "3")
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	topic := kmsg.NewIncrementalAlterConfigsRequestResource()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, q.o.Topic
	retention := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	retention.Name, retention.Value = "retention.ms", kmsg.StringPtr("1000")
	topic.Configs = append(topic.Configs, retention)
	req.Resources = append(req.Resources, topic)
	resp, err := req.RequestWith(t.Context(), q.cl)
	assert.NoError(t, err, "alter the topic")
	assert.NoError(t, kerr.ErrorForCode(resp.Resources[0].ErrorCode), "alter the topic")
	eventually(t, "they are removed", func() bool { first, _ := q.offsets(t, q.o.Topic); return first == 3 })
	s = q.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := s.Receive(ctx)
	assert.NoError(t, err, "Receive")
	lost, ok := d.(mqidem.Lost)
	assert.True(t, ok, "a report, and not %s", d.Message().ID)
	assert.Contains(t, lost.Lost().Error(), "removed 2 records of partition 0", "the reason")
}

// An operator resets the offsets of the group: the messages are redelivered, and are duplicates.
// So is a message that was acked by a consumer that died before it committed.
func TestRedeliveredAreDuplicates(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, func(o *kafkaidem.Options, c *kafkaidem.TopicOptions) {
			o.CommitEvery, c.Retention = 10*time.Second, time.Hour
		})
		q.publish(t, "1", "2", "3")
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests"), Logger: quiet})
		defer func() { _ = e.Shutdown(context.Background()) }()
		runs := 0
		consume := func(s mqidem.Source, n int) (outcomes []string) {
			t.Helper()
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			err := mqidem.Consume(ctx, s, mqidem.Once(e, "stock", func(context.Context, *mqidem.Message) error { runs++; return nil }), &mqidem.Options{
				Concurrency: 1, Logger: quiet, OnOutcome: func(_ context.Context, o mqidem.Outcome) {
					if outcomes = append(outcomes, o.Message.ID+" "+o.What); len(outcomes) == n {
						stop()
					}
				},
			})
			assert.NoError(t, err, "Consume")
			return outcomes
		}
		var l lines
		dies := q.open(t, kgo.Dialer(l.dial), kgo.SessionTimeout(5*time.Second))
		assert.Equal(t, consume(dies, 2), []string{"1 done", "2 done"}, "outcomes")
		l.cutAll(true) // usually the second ack is not committed then
		want := []string{"1 duplicate", "2 duplicate", "3 done"}[max(0, q.committedOffset(t)):]
		lives := q.open(t)
		assert.Equal(t, consume(lives, len(want)), want, "outcomes")
		assert.NoError(t, lives.Close(), "Close")

		topic, err := q.describe(t, q.o.Topic)
		assert.NoError(t, err, "describe the topic")
		eventually(t, "the offsets are reset", func() bool {
			// the dead consumer may still be a member
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Group, req.Generation = q.o.Group, -1
			one := kmsg.NewOffsetCommitRequestTopic()
			// new brokers know it by its number alone
			one.Topic, one.TopicID = q.o.Topic, topic.Topics[0].TopicID
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Offset = 0
			one.Partitions = append(one.Partitions, p)
			req.Topics = append(req.Topics, one)
			resp, err := req.RequestWith(t.Context(), q.cl)
			return err == nil && kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode) == nil
		})
		assert.Equal(t, consume(q.open(t), 3), []string{"1 duplicate", "2 duplicate", "3 duplicate"}, "outcomes")
		assert.Equal(t, runs, 3, "runs of the handler")
	})
}
