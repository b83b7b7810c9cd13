package kafkaidem_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

func setUnordered(o *kafkaidem.Options, _ *kafkaidem.TopicOptions) { o.Unordered = true }

// In order, a partition has one message in work. The next one comes when it is settled, and not
// while it waits for a later try.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.publish(t, "1", "2")
		s := q.open(t)
		d := receive(t, s, "1")
		expectNothing(t, s, 100*time.Millisecond)
		asked := time.Now()
		assert.NoError(t, d.Retry(t.Context(), 400*time.Millisecond), "Retry")
		d = receive(t, s, "1")
		assert.True(t, time.Since(asked) >= 400*time.Millisecond, "it waits its time, and came after %v", time.Since(asked))
		assert.Equal(t, d.Message().Deliveries, 2, "deliveries")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
		assert.NoError(t, receive(t, s, "2").Ack(t.Context()), "Ack")
		eventually(t, "all is committed", func() bool { return q.committedOffset(t) == 2 })
	})
}

// A partition that waits does not hold up another one.
func TestOtherPartitionsPass(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) { c.Partitions = 2 })
		n := q.publishSpread(t, 20)
		s := q.open(t)
		d, err := s.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		assert.NoError(t, d.Retry(t.Context(), time.Hour), "Retry")
		for range n[1-partitionOf(d)] {
			d, err := s.Receive(t.Context())
			assert.NoError(t, err, "Receive")
			assert.NoError(t, d.Ack(t.Context()), "Ack")
		}
		expectNothing(t, s, 100*time.Millisecond)
	})
}

// TestFlows: a partition with many messages is consumed without a stop, although a fetch waits a
// minute for another partition, which is empty.
func TestFlows(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, func(o *kafkaidem.Options, c *kafkaidem.TopicOptions) { o.Unordered, c.Partitions = true, 2 })
		const n = 3000
		var records []*kgo.Record
		for i := range n {
			records = append(records, &kgo.Record{Topic: q.o.Topic, Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: fmt.Append(nil, i)}}})
		}
		assert.NoError(t, q.cl.ProduceSync(t.Context(), records...).FirstErr(), "produce")
		s := q.open(t, kgo.FetchMaxWait(time.Minute))
		for i := range n {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // a stop is longer
			d, err := s.Receive(ctx)
			cancel()
			assert.NoError(t, err, "Receive of %d", i)
			assert.NoError(t, d.Ack(t.Context()), "Ack")
		}
	})
}

// The committed offset is never past an unsettled record: after a crash all records from there on
// are delivered again.
func TestCommitStopsAtUnsettled(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, setUnordered)
		q.publish(t, "1", "2", "3", "4")
		var l lines
		dies := q.open(t, kgo.Dialer(l.dial), kgo.SessionTimeout(5*time.Second))
		first := receive(t, dies, "1")
		second, third := receive(t, dies, "2"), receive(t, dies, "3")
		assert.NoError(t, third.Ack(t.Context()), "Ack")
		assert.NoError(t, first.Ack(t.Context()), "Ack")
		eventually(t, "the first is committed", func() bool { return q.committedOffset(t) == 1 })
		assert.NoError(t, receive(t, dies, "4").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		l.cutAll(true) // it sends nothing more
		lives := q.open(t)
		for _, id := range []string{"2", "3", "4"} {
			assert.NoError(t, receive(t, lives, id).Ack(t.Context()), "Ack of %s", id)
		}
		eventually(t, "all is committed", func() bool { return q.committedOffset(t) == 4 })
		l.cutAll(false)
		eventually(t, "what the dead one had is stale when it comes back", func() bool { return isStale(second.Dead(t.Context(), mqidem.Reason{})) })
	})
}

// When another consumer joins, a partition goes to it after its messages in work have finished.
// Each message is delivered once.
func TestRebalance(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) { c.Partitions = 2 })
		n := q.publishSpread(t, 40)
		a := q.open(t)
		var under []mqidem.Delivery
		seen := map[string]int{}
		for range 2 { // one of each partition
			d, err := a.Receive(t.Context())
			assert.NoError(t, err, "Receive")
			seen[d.Message().ID]++
			under = append(under, d)
		}
		b := q.open(t)
		expectNothing(t, b, 500*time.Millisecond)
		for _, d := range under {
			assert.NoError(t, d.Ack(t.Context()), "Ack of what was under way")
		}
		ctx, through := context.WithCancel(t.Context())
		defer through()
		got := make(chan mqidem.Delivery)
		for _, s := range []*kafkaidem.Source{a, b} {
			go func() {
				for {
					d, err := s.Receive(ctx)
					if err != nil {
						return
					}
					got <- d
				}
			}()
		}
		for len(seen) < n[0]+n[1] {
			d := <-got
			seen[d.Message().ID]++
			assert.NoError(t, d.Ack(t.Context()), "Ack")
		}
		through()
		for id, times := range seen {
			assert.Equal(t, times, 1, "deliveries of %s", id)
		}
	})
}

// A message that does not finish in time is stale, and goes to the other consumer.
func TestHandoverEnds(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, func(o *kafkaidem.Options, c *kafkaidem.TopicOptions) {
			c.Partitions, o.Handover = 2, 200*time.Millisecond
		})
		q.publishSpread(t, 20)
		a := q.open(t)
		under := map[string]mqidem.Delivery{}
		for range 2 {
			d, err := a.Receive(t.Context())
			assert.NoError(t, err, "Receive")
			under[d.Message().ID] = d
		}
		b := q.open(t)
		d, err := b.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		mine := under[d.Message().ID]
		assert.True(t, mine != nil, "the other consumer gets what was under way in its partition")
		for name, settle := range map[string]func() error{
			"Ack":   func() error { return mine.Ack(t.Context()) },
			"Retry": func() error { return mine.Retry(t.Context(), 0) },
			"Dead":  func() error { return mine.Dead(t.Context(), mqidem.Reason{}) },
		} {
			err := settle()
			assert.True(t, isStale(err), "%s of a partition that went is stale: %v", name, err)
		}
		assert.Equal(t, len(q.listDead(t)), 0, "dead letters")
		delete(under, d.Message().ID)
		for _, still := range under {
			assert.NoError(t, still.Ack(t.Context()), "Ack of a partition that stayed")
		}
		assert.NoError(t, d.Ack(t.Context()), "Ack by the other one")
	})
}

// A message whose partition goes while it is being dead-lettered is not settled here. The other
// consumer gets it, and the dead letter is shown as well.
func TestDeadLetterOvertaken(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), func(o *kafkaidem.Options, c *kafkaidem.TopicOptions) {
		c.Partitions, o.Handover = 2, 200*time.Millisecond
	})
	q.publishSpread(t, 20)
	a := q.open(t)
	stuck := q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic + ".dead", Err: kerr.NotLeaderForPartition, Count: -1})
	under := map[string]chan error{}
	for range 2 {
		d, err := a.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		settled := make(chan error, 1)
		under[d.Message().ID] = settled
		go func() { settled <- d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}) }()
	}
	d, err := q.open(t).Receive(t.Context())
	assert.NoError(t, err, "Receive")
	stuck.Remove()
	for id, settled := range under {
		err := <-settled
		assert.Equal(t, isStale(err), id == d.Message().ID, "Dead of %s is stale, where the other one got %s: %v", id, d.Message().ID, err)
	}
	assert.Equal(t, len(q.listDead(t)), 2, "dead letters")
}

// A failed commit is retried. While none succeeds, nothing is lost: acked messages are delivered
// again.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.publish(t, "1", "2")
	some := q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: q.o.Group, Err: kerr.UnknownServerError, Count: 3})
	s := q.open(t)
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	eventually(t, "it is committed behind the failures", func() bool { return q.committedOffset(t) == 1 })
	assert.True(t, some.Hits() == 3, "the commits have failed: %d", some.Hits())
	all := q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: q.o.Group, Err: kerr.UnknownServerError, Count: -1})
	assert.NoError(t, receive(t, s, "2").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
	all.Remove()
	assert.NoError(t, receive(t, q.open(t), "2").Ack(t.Context()), "Ack of what was not committed")
}

// A message that cannot become a dead letter is still held, and is not committed.
func TestDeadLetterFails(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), nil)
	q.publish(t, "1")
	s := q.open(t)
	d := receive(t, s, "1")
	q.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: q.o.Topic + ".dead", Err: kerr.TopicAuthorizationFailed})
	err := d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison})
	assert.ErrorIs(t, err, kerr.TopicAuthorizationFailed, "Dead")
	assert.Contains(t, err.Error(), "the message stays with this consumer: the dead letter is not confirmed: the user may not do this; allow it by an ACL", "Dead")
	assert.Equal(t, q.committedOffset(t), -1, "committed")
	assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead, again")
	eventually(t, "it is committed", func() bool { return q.committedOffset(t) == 1 })
	assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
}

// A lost connection is not an error: Receive continues, and earlier deliveries can be settled.
func TestConnectionCut(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		var l lines
		s := q.open(t, kgo.Dialer(l.dial))
		q.publish(t, "1", "2")
		d := receive(t, s, "1")
		l.cutAll(false)
		assert.NoError(t, d.Ack(t.Context()), "Ack")
		assert.NoError(t, receive(t, s, "2").Ack(t.Context()), "Ack")
		l.cutAll(false)
		q.publish(t, "3")
		assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack")
		eventually(t, "all is committed", func() bool { return q.committedOffset(t) == 3 })
	})
}

// More messages than are held at once arrive in order: reading pauses and continues.
func TestMany(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		const n = 2000
		var batch []outbox.Outgoing
		for i := range n {
			batch = append(batch, outgoingMessage(q.o.Topic, "", fmt.Sprint(i)))
		}
		for _, err := range q.pub.Publish(t.Context(), batch) {
			assert.NoError(t, err, "publish")
		}
		s := q.open(t)
		for i := range n {
			assert.NoError(t, receive(t, s, fmt.Sprint(i)).Ack(t.Context()), "Ack")
		}
		eventually(t, "all is committed", func() bool { return q.committedOffset(t) == n })
	})
}

// However fast messages are settled, there are few commits. Close commits the rest.
func TestCommitsAreFew(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), func(o *kafkaidem.Options, _ *kafkaidem.TopicOptions) { o.CommitEvery = 10 * time.Second })
	var commits atomic.Int64
	q.c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		q.c.KeepControl()
		commits.Add(1)
		return nil, nil, false
	})
	const n = 50
	var batch []outbox.Outgoing
	for i := range n {
		batch = append(batch, outgoingMessage(q.o.Topic, "", fmt.Sprint(i)))
	}
	for _, err := range q.pub.Publish(t.Context(), batch) {
		assert.NoError(t, err, "publish")
	}
	s, begun := q.open(t), time.Now()
	for i := range n {
		assert.NoError(t, receive(t, s, fmt.Sprint(i)).Ack(t.Context()), "Ack")
		<-time.After(2 * time.Millisecond) // time for a commit
	}
	assert.NoError(t, s.Close(), "Close")
	// the first, that of Close, and one for each pause
	most := 2 + int64(time.Since(begun)/(10*time.Second))
	assert.True(t, commits.Load() <= most, "%d commits, and at most %d were to be", commits.Load(), most)
	assert.Equal(t, q.committedOffset(t), n, "committed")
	if _, err := kafkaidem.Open(t.Context(), &kafkaidem.Options{Topic: q.o.Topic, Group: q.o.Group, CommitEvery: time.Millisecond}, q.opts...); err == nil {
		t.Error("a time that is too short is taken")
	}
}

// Close ends in time although no broker answers, and hands out nothing more.
func TestCloseWithoutBroker(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startKafka(t), func(o *kafkaidem.Options, _ *kafkaidem.TopicOptions) { o.Timeout = 10 * time.Second })
	q.publish(t, "1", "2")
	s := q.open(t)
	d := receive(t, s, "1")
	q.c.Close()
	assert.NoError(t, d.Ack(t.Context()), "Ack")
	began := time.Now()
	assert.NoError(t, s.Close(), "Close")
	assert.True(t, time.Since(began) < 5*time.Minute, "Close takes %v", time.Since(began))
	_, err := s.Receive(t.Context())
	assert.ErrorIs(t, err, mqidem.ErrSourceClosed, "Receive")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		for what, change := range map[string]func(*kafkaidem.Options){
			"cannot open the topic nowhere; Create makes it: the topic is not there": func(o *kafkaidem.Options) { o.Topic = "nowhere" },
			"cannot open the topic no.dead; Create makes it":                         func(o *kafkaidem.Options) { o.DeadTopic = "no.dead" },
			"are required":    func(o *kafkaidem.Options) { o.Group = "" },
			"are the same":    func(o *kafkaidem.Options) { o.DeadTopic = o.Topic },
			"cannot be negat": func(o *kafkaidem.Options) { o.Handover = -1 },
		} {
			o := q.o
			change(&o)
			_, err := kafkaidem.Open(t.Context(), &o, q.opts...)
			assert.True(t, err != nil, "Open is refused")
			assert.Contains(t, err.Error(), what, "Open")
		}
	})
}

func TestHoldsFor(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	const day = 24 * time.Hour
	for _, one := range []struct {
		want    time.Duration
		configs map[string]string
	}{
		{72*time.Hour + time.Millisecond, map[string]string{"retention.ms": "259200000", "segment.ms": "1"}},
		// kfake's segments are of 7 days
		{10 * day, map[string]string{"retention.ms": "259200000"}},
		{retrysafe.Forever, map[string]string{"retention.ms": "-1"}},
		{retrysafe.Forever, map[string]string{"retention.ms": "9223372036854775807"}},
	} {
		want, configs := one.want, one.configs
		q := newQueue(t, c, func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) { c.Configs = configs })
		got, err := q.open(t).HoldsFor(t.Context())
		assert.NoError(t, err, "HoldsFor")
		assert.Equal(t, got, want, "HoldsFor with %v", configs)
	}
	q := newQueue(t, c, func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) { c.Retention = 7 * 24 * time.Hour })
	holds, err := q.open(t).HoldsFor(t.Context())
	assert.NoError(t, err, "HoldsFor")
	assert.Equal(t, holds, 8*24*time.Hour, "HoldsFor with Retention of 7 days")
	for _, bad := range []kafkaidem.TopicOptions{{Retention: time.Second}, {Retention: time.Hour, Configs: map[string]string{"retention.ms": "1"}}} {
		assert.Contains(t, fmt.Sprint(kafkaidem.Create(t.Context(), &bad, &q.o, q.opts...)), "Retention", "Create")
	}
	q = newQueue(t, c, func(_ *kafkaidem.Options, c *kafkaidem.TopicOptions) {
		c.Configs = map[string]string{"retention.ms": "1000", "cleanup.policy": "compact"}
	})
	got, err := q.open(t).HoldsFor(t.Context())
	assert.NoError(t, err, "HoldsFor")
	assert.Equal(t, got, retrysafe.Forever, "HoldsFor of a topic that is compacted")
}

// Records that the brokers have removed before they were settled are reported when a consumer gets
// the partition, also those that no consumer has read.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, nil)
		q.publish(t, "1", "2", "3")
		s := q.open(t)
		assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
		assert.NoError(t, s.Close(), "Close")
		q.trimAll(t)
		s = q.open(t)
		d, err := s.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		lost, ok := d.(mqidem.Lost)
		assert.True(t, ok, "a report, and not %q", d.Message().Body)
		assert.Contains(t, lost.Lost().Error(), "removed 2 records of partition 0", "the reason")
		assert.NoError(t, errors.Join(d.Ack(t.Context()), d.Retry(t.Context(), 0), d.Dead(t.Context(), mqidem.Reason{})), "settling it")
		q.publish(t, "4")
		assert.NoError(t, receive(t, s, "4").Ack(t.Context()), "Ack")
		assert.NoError(t, s.Close(), "Close")
		q.publish(t, "5")
		assert.NoError(t, receive(t, q.open(t), "5").Ack(t.Context()), "Ack, with nothing to report")
	})
}

// Records that the brokers remove while a consumer has the partition, before it has read them, are
// reported too.
func TestTrimmedBeforeRead(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, k brokers) {
		t.Helper()
		q := newQueue(t, k, setUnordered)
		const n = 40 // of 900 kB: a source holds 8 MB, and one fetch
		uncompressed, err := kgo.NewClient(append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, q.opts...)...)
		assert.NoError(t, err, "client")
		defer uncompressed.Close()
		for range n {
			r := &kgo.Record{Topic: q.o.Topic, Value: make([]byte, 900_000), Headers: []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: []byte("x")}}}
			assert.NoError(t, uncompressed.ProduceSync(t.Context(), r).FirstErr(), "produce")
		}
		s := q.open(t, kgo.FetchMaxBytes(1<<20))
		held, lost := []mqidem.Delivery{receive(t, s, "x")}, 0
		// for what the source reads by itself; that it is less than all is checked below
		<-time.After(time.Second)
		q.trimAll(t)
		q.publish(t, "next")
		for last := false; !last; {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			d, err := s.Receive(ctx)
			cancel()
			assert.NoError(t, err, "Receive")
			if report, ok := d.(mqidem.Lost); ok {
				// there are several, if the broker deletes in steps
				var records int
				_, err := fmt.Sscanf(report.Lost().Error(), "kafkaidem: the brokers have removed %d records of partition 0", &records)
				assert.NoError(t, err, "the report %v", report.Lost())
				lost += records
				continue
			}
			last = d.Message().ID == "next"
			held = append(held, d)
		}
		assert.True(t, lost > 0, "everything was read before it was trimmed")
		assert.Equal(t, lost+len(held), n+1, "records that were reported as lost or delivered")
		for _, d := range held {
			assert.NoError(t, d.Ack(t.Context()), "Ack")
		}
	})
}

func isStale(err error) bool { return errors.Is(err, mqidem.ErrStale) }

// publishSpread publishes messages of many keys, and returns how many went to each of two
// partitions. Their ids start with the number of the partition.
func (q *queue) publishSpread(t *testing.T, n int) (of [2]int) {
	t.Helper()
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, q.opts...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	assert.NoError(t, err, "client")
	defer cl.Close()
	for i := range n {
		r := &kgo.Record{Topic: q.o.Topic, Partition: int32(i % 2), Headers: []kgo.RecordHeader{{Key: mqidem.HeaderID, Value: fmt.Appendf(nil, "%d-%d", i%2, i)}}}
		assert.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr(), "produce")
		of[i%2]++
	}
	return of
}

func partitionOf(d mqidem.Delivery) int { return int(d.Message().ID[0] - '0') }
