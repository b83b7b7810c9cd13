package kafkaidem_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

var quiet = slog.New(slog.DiscardHandler)

// brokers are a cluster of Kafka.
type brokers interface{ ListenAddrs() []string }

// cluster is a real one, and how consumers join their group.
type cluster struct {
	*servertest.Kafka
	group []kgo.Opt
}

// brokersAssign lets the brokers assign the partitions (KIP-848), which is the group protocol of
// Kafka 4; without it the consumers do, as they always have.
var brokersAssign = []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}

// longerSession is the session of a consumer where the brokers assign: longer than a busy machine
// stands still.
const longerSession = "group.consumer.session.timeout.ms=60000"

var shared struct {
	once sync.Once
	c    cluster
	undo []func()
}

// untilTheEnd has the cleanups of what all tests share.
type untilTheEnd struct{ testing.TB }

func (untilTheEnd) Cleanup(f func()) { shared.undo = append(shared.undo, f) }

// sharedKafka returns a broker for all tests that do not disturb it.
func sharedKafka(tb testing.TB) cluster {
	tb.Helper()
	shared.once.Do(func() { shared.c.Kafka = servertest.StartKafka(untilTheEnd{tb}, 1, longerSession) })
	assert.True(tb, shared.c.Kafka != nil, "Kafka did not start; see the first test that failed")
	return shared.c
}

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they mostly wait
	code := m.Run()
	for _, undo := range slices.Backward(shared.undo) {
		undo()
	}
	os.Exit(code)
}

// onEachKafka runs a test on a real broker, and on kfake, which is what users of the package may
// have in their own tests.
func onEachKafka(t *testing.T, test func(*testing.T, brokers)) {
	t.Helper()
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		test(t, sharedKafka(t))
	})
	t.Run("Kafka, the brokers assign", func(t *testing.T) {
		t.Parallel()
		test(t, cluster{sharedKafka(t).Kafka, brokersAssign})
	})
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, startKafka(t))
	})
}

// startKafka starts a broker in this process, on loopback.
func startKafka(tb testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}, opts...)...)
	assert.NoError(tb, err, "kfake")
	tb.Cleanup(c.Close)
	return c
}

var names atomic.Int64

// queue is a topic with a group that no other test uses.
type queue struct {
	c           *kfake.Cluster // nil on a real cluster
	cl          *kgo.Client
	o           kafkaidem.Options
	opts        []kgo.Opt
	pub         *kafkaidem.Publisher
	deadLetters *kafkaidem.DeadLetters
}

func newQueue(tb testing.TB, k brokers, change func(*kafkaidem.Options, *kafkaidem.TopicOptions)) *queue {
	tb.Helper()
	q := &queue{o: kafkaidem.Options{
		Topic: fmt.Sprint("orders", names.Add(1)), Group: fmt.Sprint("stock", names.Add(1)), Timeout: time.Minute, Handover: 30 * time.Second, Logger: quiet,
	}}
	t := &kafkaidem.TopicOptions{Partitions: 1}
	if change != nil {
		change(&q.o, t)
	}
	q.c, _ = k.(*kfake.Cluster)
	q.opts = []kgo.Opt{kgo.SeedBrokers(k.ListenAddrs()...), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)}
	if c, real := k.(cluster); real {
		q.opts = append(q.opts, c.group...)
	}
	assert.NoError(tb, kafkaidem.Create(tb.Context(), t, &q.o, q.opts...), "Create")
	assert.NoError(tb, kafkaidem.Create(tb.Context(), t, &q.o, q.opts...), "Create, once more")
	var err error
	q.cl, err = kgo.NewClient(q.opts...)
	assert.NoError(tb, err, "client")
	tb.Cleanup(q.cl.Close)
	q.pub, err = kafkaidem.NewPublisher(q.opts...)
	assert.NoError(tb, err, "publisher")
	tb.Cleanup(func() { _ = q.pub.Close() })
	q.deadLetters, err = kafkaidem.OpenDeadLetters(tb.Context(), &q.o, q.opts...)
	assert.NoError(tb, err, "OpenDeadLetters")
	tb.Cleanup(func() { _ = q.deadLetters.Close() })
	return q
}

func (q *queue) open(tb testing.TB, more ...kgo.Opt) *kafkaidem.Source {
	tb.Helper()
	s, err := kafkaidem.Open(tb.Context(), &q.o, append(append([]kgo.Opt{}, q.opts...), more...)...)
	assert.NoError(tb, err, "Open")
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func outgoingMessage(topic, key, id string) outbox.Outgoing {
	return outbox.Outgoing{Message: outbox.Message{ID: id, Topic: topic, Key: key, Payload: []byte(id)}}
}

// publishAgain publishes a message until it is confirmed, as an outbox does. It may be there twice.
func (q *queue) publishAgain(tb testing.TB, id string) {
	tb.Helper()
	eventually(tb, "message "+id+" is confirmed", func() bool {
		return q.pub.Publish(tb.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, "k", id)})[0] == nil
	})
}

// publish sends messages of one key, in order.
func (q *queue) publish(tb testing.TB, ids ...string) {
	tb.Helper()
	var batch []outbox.Outgoing
	for _, id := range ids {
		batch = append(batch, outgoingMessage(q.o.Topic, "k", id))
	}
	for i, err := range q.pub.Publish(tb.Context(), batch) {
		assert.NoError(tb, err, "publish %s", ids[i])
	}
}

func (q *queue) listDead(tb testing.TB) (found []*mqidem.DeadLetter) {
	tb.Helper()
	assert.NoError(tb, q.deadLetters.Walk(tb.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		found = append(found, p)
		return mqidem.Keep, nil
	}), "Walk")
	return found
}

// committedOffset returns what the group has committed for partition 0, or -1.
func (q *queue) committedOffset(tb testing.TB) int64 {
	tb.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = q.o.Group, true
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = q.o.Topic, []int32{0}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), q.cl)
	if err != nil { // the coordinator is down
		return -1
	}
	for _, t := range resp.Topics {
		return t.Partitions[0].Offset
	}
	return -1
}

// offsets returns where partition 0 of a topic begins and ends.
func (q *queue) offsets(tb testing.TB, topic string) (first, end int64) {
	tb.Helper()
	first, err := q.askOffset(tb, topic, -2)
	assert.NoError(tb, err, "ask for the first offset")
	end, err = q.askOffset(tb, topic, -1)
	assert.NoError(tb, err, "ask for the end")
	return first, end
}

// askOffset asks the leader of partition 0 of a topic for an offset.
func (q *queue) askOffset(tb testing.TB, topic string, timestamp int64) (int64, error) {
	tb.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = timestamp
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), q.cl)
	if err != nil {
		return 0, err
	}
	return resp.Topics[0].Partitions[0].Offset, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// deleteTopic deletes a topic, and waits until its partition is gone. The brokers delete it after
// they have answered.
func (q *queue) deleteTopic(tb testing.TB, topic string) {
	tb.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{topic}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), q.cl)
	assert.NoError(tb, err, "delete the topic")
	assert.NoError(tb, kerr.ErrorForCode(resp.Topics[0].ErrorCode), "delete the topic")
	eventually(tb, "the topic is gone", func() bool {
		_, err := q.askOffset(tb, topic, -1)
		return errors.Is(err, kerr.UnknownTopicOrPartition)
	})
}

// losePlace deletes the group with its offsets.
func (q *queue) losePlace(tb testing.TB) {
	tb.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{q.o.Group}
	resp, err := req.RequestWith(tb.Context(), q.cl)
	assert.NoError(tb, err, "delete the group")
	assert.NoError(tb, kerr.ErrorForCode(resp.Groups[0].ErrorCode), "delete the group")
}

// trimAll deletes all records of partition 0.
func (q *queue) trimAll(tb testing.TB) {
	tb.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = q.o.Topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = -1 // all
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), q.cl)
	assert.NoError(tb, err, "delete records")
	assert.NoError(tb, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode), "delete records")
}

// receive waits for a message and checks its id.
func receive(tb testing.TB, s mqidem.Source, id string) mqidem.Delivery {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	d, err := s.Receive(ctx)
	assert.NoError(tb, err, "Receive of %s", id)
	assert.Equal(tb, d.Message().ID, id, "the message")
	return d
}

// expectNothing checks that no message arrives for some time.
func expectNothing(tb testing.TB, s mqidem.Source, within time.Duration) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	_, err := s.Receive(ctx)
	assert.ErrorIs(tb, err, context.DeadlineExceeded, "Receive of nothing")
}

// eventually waits for something that the broker does.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for end := time.Now().Add(5 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		assert.True(tb, time.Now().Before(end), "%s", what)
	}
}

// lines are the connections of a client, so that a test can cut it off as if it had died.
type lines struct {
	mu   sync.Mutex
	all  []net.Conn
	down bool
}

func (l *lines) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	l.all = append(l.all, c)
	return c, nil
}

func (l *lines) cutAll(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for _, c := range l.all {
		_ = c.Close()
	}
	l.all = nil
}
