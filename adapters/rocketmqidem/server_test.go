package rocketmqidem_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they compute
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// sharedServer is the broker of the tests that do not harm it.
type sharedServer struct {
	once sync.Once
	tb   lastingTB
	r    *servertest.RocketMQ
}

var shared sharedServer

// lastingTB is a testing.TB whose cleanups run at the end of all tests.
type lastingTB struct {
	testing.TB
	cleanups []func()
}

func (l *lastingTB) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

func (s *sharedServer) stop() {
	for i := len(s.tb.cleanups) - 1; i >= 0; i-- {
		s.tb.cleanups[i]()
	}
}

// sharedBroker returns the broker that tests share.
func sharedBroker(tb testing.TB) *servertest.RocketMQ {
	tb.Helper()
	shared.once.Do(func() {
		shared.tb.TB = tb
		shared.r = servertest.StartRocketMQ(&shared.tb)
	})
	if shared.r == nil {
		tb.Fatal("the server that tests share did not start; another test says why")
	}
	return shared.r
}

// queue is a topic with a group that no other test uses.
type queue struct {
	r           *servertest.RocketMQ
	servers     *rocketmqidem.Servers
	o           rocketmqidem.Options
	queues      int
	pub         *rocketmqidem.Publisher
	deadLetters *rocketmqidem.DeadLetters

	mu   sync.Mutex
	open []*rocketmqidem.Source
}

// newQueue creates a topic with one queue, unless change says otherwise.
func newQueue(tb testing.TB, r *servertest.RocketMQ, change func(*rocketmqidem.Options, *rocketmqidem.TopicOptions)) *queue {
	tb.Helper()
	q := &queue{r: r, servers: &rocketmqidem.Servers{NameServers: []string{r.NameServer}}, o: rocketmqidem.Options{
		Topic: "orders" + rand.Text(), Group: "stock" + rand.Text(), Timeout: time.Minute, Logger: quiet,
	}}
	t := &rocketmqidem.TopicOptions{Brokers: []string{r.Broker}, Queues: 1}
	if change != nil {
		change(&q.o, t)
	}
	q.queues = t.Queues
	assert.NoError(tb, rocketmqidem.Create(tb.Context(), q.servers, t, &q.o), "Create")
	assert.NoError(tb, rocketmqidem.Create(tb.Context(), q.servers, t, &q.o), "Create, once more")
	var err error
	q.pub, err = rocketmqidem.NewPublisher(q.servers, quiet)
	assert.NoError(tb, err, "publisher")
	tb.Cleanup(func() { _ = q.pub.Close() })
	q.deadLetters, err = rocketmqidem.OpenDeadLetters(tb.Context(), q.servers, &q.o)
	assert.NoError(tb, err, "OpenDeadLetters")
	tb.Cleanup(func() { _ = q.deadLetters.Close() })
	return q
}

// source is a source that the queue knows of.
type source struct {
	*rocketmqidem.Source
	of *queue
}

func (s source) Close() error {
	s.of.mu.Lock()
	for i, other := range s.of.open {
		if other == s.Source {
			s.of.open = append(s.of.open[:i:i], s.of.open[i+1:]...)
			break
		}
	}
	s.of.mu.Unlock()
	return s.Source.Close()
}

// openSource opens a source, and returns when the sources of the queue have shared its queues.
// Until then a message could come to two of them.
func (q *queue) openSource(tb testing.TB) source {
	tb.Helper()
	s, err := rocketmqidem.Open(tb.Context(), q.servers, &q.o)
	assert.NoError(tb, err, "Open")
	q.mu.Lock()
	q.open = append(q.open, s)
	all := append([]*rocketmqidem.Source(nil), q.open...)
	q.mu.Unlock()
	one := source{s, q}
	tb.Cleanup(func() { _ = one.Close() })
	eventually(tb, "the sources have shared the queues", func() bool { return rocketmqidem.HaveShared(all, q.queues) })
	return one
}

func outgoingMessage(topic, key, id string) outbox.Outgoing {
	return outbox.Outgoing{Message: outbox.Message{ID: id, Topic: topic, Key: key, Payload: []byte(id)}}
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

// publishLarge sends a message that fills half a file of the broker in
// TestDeletedMessagesAreReported.
func (q *queue) publishLarge(tb testing.TB, id string) {
	tb.Helper()
	m := outgoingMessage(q.o.Topic, "k", id)
	m.Payload = make([]byte, 25_000)
	_, _ = rand.Read(m.Payload) // never fails; the client would compress other bytes
	assert.NoError(tb, q.pub.Publish(tb.Context(), []outbox.Outgoing{m})[0], "publish %s", id)
}

func (q *queue) listDead(tb testing.TB) (found []*mqidem.DeadLetter) {
	tb.Helper()
	assert.NoError(tb, q.deadLetters.Walk(tb.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		found = append(found, p)
		return mqidem.Keep, nil
	}), "Walk")
	return found
}

// losePlace sets the offsets of the group back, as an operator does with mqadmin.
func (q *queue) losePlace(tb testing.TB) {
	tb.Helper()
	c, err := consumer.NewPullConsumer(consumer.WithNsResolver(primitive.NewPassthroughResolver(q.servers.NameServers)), consumer.WithGroupName(q.o.Group),
		consumer.WithInstance(rand.Text()), consumer.WithPullBatchSize(1))
	assert.NoError(tb, err, "client")
	assert.NoError(tb, errors.Join(c.Assign(q.o.Topic, nil), c.Start()), "start")
	queues, err := c.GetTopicRouteInfo(q.o.Topic)
	assert.NoError(tb, err, "queues")
	assert.NoError(tb, c.Assign(q.o.Topic, queues), "assign")
	eventually(tb, "the client has the queues", func() bool { return len(c.GetConsumerRunningInfo(false).MQTable) == len(queues) })
	for _, one := range queues {
		_ = c.UpdateOffset(one, 0)
	}
	assert.NoError(tb, c.PersistOffset(tb.Context(), q.o.Topic), "store")
	// it is stored when this is answered
	_, _ = c.CurrentOffset(&primitive.MessageQueue{Topic: q.o.Topic, BrokerName: queues[0].BrokerName, QueueId: 1 << 20})
	for _, one := range queues {
		_ = c.UpdateOffset(one, 0) // which Shutdown sends again
	}
	_ = c.Shutdown()
}

// receive waits for a message and checks its id.
func receive(tb testing.TB, s mqidem.Source, id string) mqidem.Delivery {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Minute)
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
	for end := time.Now().Add(3 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		assert.True(tb, time.Now().Before(end), "%s", what)
	}
}
