package bench_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/adapters/watermillidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// inFlight is how many messages a consumer has at a time.
const inFlight = 64

var noLog = slog.New(slog.DiscardHandler)

// brokers are the servers that all benchmarks of messages share.
type brokers struct {
	once   sync.Once
	rabbit *servertest.RabbitMQ
	redis  *servertest.Redis
}

var servers brokers

// queueWork is a queue with b.N messages in it. done is called for each.
type queueWork struct {
	*testing.B
	url, queue string
	left       atomic.Int64
	through    chan struct{}
}

func newWork(b *testing.B) *queueWork {
	b.Helper()
	return newWorkOn(b, func(w *queueWork) error { return amqpidem.Declare(b.Context(), w.url, w.queue, w.options()) })
}

func newWorkOn(b *testing.B, declare func(*queueWork) error) *queueWork {
	b.Helper()
	servers.once.Do(func() {
		servers.rabbit, servers.redis = servertest.StartRabbitMQ(forAll{b}), servertest.StartRedis(forAll{b}, "--appendonly", "yes", "--appendfsync", "everysec")
	})
	w := &queueWork{B: b, url: servers.rabbit.VHost(b), queue: "work", through: make(chan struct{})}
	w.left.Store(int64(b.N))
	assert.NoError(b, declare(w), "declare")
	p, err := amqpidem.NewPublisher(b.Context(), w.url, nil)
	assert.NoError(b, err, "publisher")
	defer p.Close()
	for first := 0; first < b.N; first += 500 {
		var batch []outbox.Outgoing
		for i := first; i < min(first+500, b.N); i++ {
			batch = append(batch, outbox.Outgoing{Attempt: 1, Message: outbox.Message{
				ID: rand.Text(), Topic: w.queue, Payload: fmt.Append(nil, "a message of some bytes ", i), Headers: map[string]string{"_watermill_message_uuid": rand.Text()},
			}})
		}
		for _, err := range p.Publish(b.Context(), batch) {
			assert.NoError(b, err, "publish")
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	return w
}

func (w *queueWork) options() *amqpidem.Options {
	return &amqpidem.Options{Prefetch: inFlight, Dialing: amqpidem.Dialing{Logger: noLog}}
}

// batchOptions prefetches more: the next batch must be there when this one is done.
func (w *queueWork) batchOptions() *amqpidem.Options {
	o := w.options()
	o.Prefetch = 4 * inFlight
	return o
}

func (w *queueWork) countDone(n int) {
	if w.left.Add(int64(-n)) == 0 {
		close(w.through)
	}
}

func (w *queueWork) newSource(o *amqpidem.Options) *amqpidem.Source {
	s, err := amqpidem.Open(w.Context(), w.url, w.queue, o)
	assert.NoError(w, err, "open")
	w.Cleanup(func() { _ = s.Close() })
	return s
}

// consumeAll runs until all messages were settled.
func (w *queueWork) consumeAll(run func(context.Context, *mqidem.Options) error) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, &mqidem.Options{Concurrency: inFlight, Logger: noLog, OnOutcome: func(context.Context, mqidem.Outcome) { w.countDone(1) }})
	}()
	<-w.through
	w.StopTimer()
	cancel()
	assert.NoError(w, <-ended, "consume")
}

// BenchmarkMessagesPlain is the baseline: RabbitMQ's client with manual acks.
func BenchmarkMessagesPlain(b *testing.B) {
	w := newWork(b)
	conn, err := amqp.Dial(w.url)
	assert.NoError(b, err, "dial")
	defer conn.Close()
	ch, err := conn.Channel()
	assert.NoError(b, err, "channel")
	assert.NoError(b, ch.Qos(inFlight, 0, false), "prefetch")
	ds, err := ch.Consume(w.queue, "", false, false, false, false, nil)
	assert.NoError(b, err, "consume")
	for range inFlight {
		go func() {
			for d := range ds {
				if d.Ack(false) == nil {
					w.countDone(1)
				}
			}
		}()
	}
	<-w.through
}

func doNothing(context.Context, *mqidem.Message) error { return nil }

func BenchmarkMessagesMemory(b *testing.B) { benchmarkOnce(b, memstore.New(nil)) }

func BenchmarkMessagesRedis(b *testing.B) { benchmarkOnce(b, benchRedis(b)) }

func benchmarkOnce(b *testing.B, s storeapi.Store) {
	b.Helper()
	w := newWork(b)
	trips := &storeCalls{}
	source, e := w.newSource(w.options()), newMessageEngine(s, trips)
	w.consumeAll(func(ctx context.Context, o *mqidem.Options) error {
		return mqidem.Consume(ctx, source, mqidem.Once(e, "bench", doNothing), o)
	})
	b.ReportMetric(float64(trips.Load())/float64(b.N), "storecalls/op")
}

func BenchmarkMessagesRedisBatch(b *testing.B) { benchmarkBatch(b, benchRedis(b)) }

func BenchmarkMessagesMemoryBatch(b *testing.B) { benchmarkBatch(b, memstore.New(nil)) }

func benchmarkBatch(b *testing.B, s storeapi.Store) {
	b.Helper()
	w := newWork(b)
	trips := &storeCalls{}
	source, e := w.newSource(w.batchOptions()), newMessageEngine(s, trips)
	w.consumeAll(func(ctx context.Context, o *mqidem.Options) error {
		o.Concurrency, o.Batch, o.Linger = 2, 100, 5*time.Millisecond
		return mqidem.ConsumeBatch(ctx, source, mqidem.OnceBatch(e, "bench", func(context.Context, []*mqidem.Message) []error { return nil }), o)
	})
	b.ReportMetric(float64(trips.Load())/float64(b.N), "storecalls/op")
}

// storeCalls counts an engine's calls of its store. Each is a round trip, and a batch counts as
// one.
type storeCalls struct{ atomic.Int64 }

func newMessageEngine(s storeapi.Store, n *storeCalls) *retrysafe.Engine {
	return retrysafe.New(s, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: noLog, Trace: &retrysafe.Trace{Store: func(context.Context, retrysafe.StoreInfo) func(error) {
		n.Add(1)
		return func(error) {}
	}}})
}

func benchRedis(b *testing.B) storeapi.Store {
	b.Helper()
	servers.once.Do(func() {
		servers.rabbit, servers.redis = servertest.StartRabbitMQ(forAll{b}), servertest.StartRedis(forAll{b}, "--appendonly", "yes", "--appendfsync", "everysec")
	})
	address, err := redisclient.ParseURL("redis://" + servers.redis.Addr)
	assert.NoError(b, err, "address")
	client, err := rueidisclient.Open(address)
	assert.NoError(b, err, "connect")
	b.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(b.Context(), client, &redisstore.Options{Prefix: rand.Text(), Logger: noLog})
	assert.NoError(b, err, "store")
	return s
}

// Watermill on the same broker, with its Deduplicator and with ours.
func BenchmarkMessagesWatermill(b *testing.B) {
	d := &middleware.Deduplicator{KeyFactory: func(m *message.Message) (string, error) { return m.UUID, nil }, Timeout: time.Minute}
	benchmarkWatermill(b, d.Middleware)
}

func BenchmarkMessagesWatermillOurs(b *testing.B) {
	d := &watermillidem.Deduplicator{Engine: newMessageEngine(memstore.New(nil), new(storeCalls))}
	benchmarkWatermill(b, d.Middleware)
}

func benchmarkWatermill(b *testing.B, m message.HandlerMiddleware) {
	b.Helper()
	var s *watermillamqp.Subscriber
	w := newWorkOn(b, func(w *queueWork) (err error) {
		c := watermillamqp.NewDurableQueueConfig(w.url)
		c.Consume.Qos.PrefetchCount = inFlight
		if s, err = watermillamqp.NewSubscriber(c, watermill.NopLogger{}); err != nil {
			return err
		}
		return s.SubscribeInitialize(w.queue)
	})
	r, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	assert.NoError(b, err, "router")
	r.AddMiddleware(m)
	// Watermill processes one message of a subscription at a time. As many subscriptions as the
	// others have messages in flight would be more consumers.
	r.AddConsumerHandler("bench", w.queue, s, func(*message.Message) error {
		w.countDone(1)
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.Background()) }()
	<-w.through
	b.StopTimer()
	assert.NoError(b, r.Close(), "close")
	assert.NoError(b, <-ended, "run")
}

// forAll makes servers outlive the benchmark that starts them: they end with the process.
type forAll struct{ *testing.B }

func (forAll) Cleanup(func())           {}
func (forAll) Context() context.Context { return context.Background() }
