package kafkaidem_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
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
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

var quiet = slog.New(slog.DiscardHandler)

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
	c           *kfake.Cluster
	o           kafkaidem.Options
	opts        []kgo.Opt
	pub         *kafkaidem.Publisher
	deadLetters *kafkaidem.DeadLetters
}

func newQueue(tb testing.TB, c *kfake.Cluster, change func(*kafkaidem.Options, *kafkaidem.TopicOptions)) *queue {
	tb.Helper()
	q := &queue{c: c, o: kafkaidem.Options{
		Topic: fmt.Sprint("orders", names.Add(1)), Group: fmt.Sprint("stock", names.Add(1)), Timeout: time.Minute, Handover: 30 * time.Second, Logger: quiet,
	}}
	t := &kafkaidem.TopicOptions{Partitions: 1}
	if change != nil {
		change(&q.o, t)
	}
	q.opts = []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)}
	assert.NoError(tb, kafkaidem.Create(tb.Context(), t, &q.o, q.opts...), "Create")
	assert.NoError(tb, kafkaidem.Create(tb.Context(), t, &q.o, q.opts...), "Create, once more")
	var err error
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

func message(topic, key, id string) outbox.Outgoing {
	return outbox.Outgoing{Message: outbox.Message{ID: id, Topic: topic, Key: key, Payload: []byte(id)}}
}

// publish sends messages of one key, in order.
func (q *queue) publish(tb testing.TB, ids ...string) {
	tb.Helper()
	var batch []outbox.Outgoing
	for _, id := range ids {
		batch = append(batch, message(q.o.Topic, "k", id))
	}
	for i, err := range q.pub.Publish(tb.Context(), batch) {
		assert.NoError(tb, err, "publish %s", ids[i])
	}
}

func (q *queue) dead(tb testing.TB) (found []*mqidem.DeadLetter) {
	tb.Helper()
	assert.NoError(tb, q.deadLetters.Walk(tb.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		found = append(found, p)
		return mqidem.Keep, nil
	}), "Walk")
	return found
}

// committed returns what the group has committed for partition 0.
func (q *queue) committed(tb testing.TB) int64 {
	tb.Helper()
	info := q.c.GroupInfo(q.o.Group)
	if info == nil {
		return -1
	}
	at, ok := info.Commits[q.o.Topic][0]
	if !ok {
		return -1
	}
	return at.Offset
}

// losePlace deletes the group with its offsets.
func (q *queue) losePlace(tb testing.TB) {
	tb.Helper()
	cl, err := kgo.NewClient(q.opts...)
	assert.NoError(tb, err, "client")
	defer cl.Close()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{q.o.Group}
	resp, err := req.RequestWith(tb.Context(), cl)
	assert.NoError(tb, err, "delete the group")
	assert.NoError(tb, kerr.ErrorForCode(resp.Groups[0].ErrorCode), "delete the group")
}

// trim deletes all records of partition 0.
func (q *queue) trim(tb testing.TB) {
	tb.Helper()
	cl, err := kgo.NewClient(q.opts...)
	assert.NoError(tb, err, "client")
	defer cl.Close()
	req := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = q.o.Topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = -1 // all
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), cl)
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

// nothing checks that no message arrives for some time.
func nothing(tb testing.TB, s mqidem.Source, within time.Duration) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	_, err := s.Receive(ctx)
	assert.ErrorIs(tb, err, context.DeadlineExceeded, "Receive of nothing")
}

// eventually waits for something that the broker does.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
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

func (l *lines) cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for _, c := range l.all {
		_ = c.Close()
	}
	l.all = nil
}
