package brokers_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
)

// silence is how long a dead consumer is silent before a broker gives its messages to another one.
const silence = 10 * time.Second

func init() {
	kinds["Redis streams"] = kind{open: openStream, publisher: publishToStream, deadLetters: deadLettersOfStream, start: startStreams}
	kinds["NATS"] = kind{open: openNATS, publisher: publishToNATS, deadLetters: deadLettersOfNATS, start: startNATS}
	// A group of Kafka stops while it reassigns the partitions of a dead consumer.
	kinds["Kafka"] = kind{open: openKafka, publisher: publishToKafka, deadLetters: deadLettersOfKafka, start: startKafka, life: 40 * time.Second}
	kinds["Kafka, the brokers assign"] = kind{open: openKafka, publisher: publishToKafka, deadLetters: deadLettersOfKafka, start: startKafkaThatAssigns, life: 20 * time.Second}
}

// closer closes by functions.
type closer []func()

func (c closer) Close() error {
	for _, f := range c {
		f()
	}
	return nil
}

// both is a source with its resources.
type both struct {
	source
	closer
}

func (b both) Close() error {
	err := b.source.Close()
	_ = b.closer.Close()
	return err
}

func streamOptions() *redisstreamidem.Options {
	return &redisstreamidem.Options{Stream: queue, Group: "effect", Idle: silence, Logger: quiet}
}

func rueidisTo(url string) (*rueidisclient.Client, error) {
	address, err := redisclient.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return rueidisclient.Open(address)
}

func openStream(ctx context.Context, url string) (source, error) {
	client, err := rueidisTo(url)
	if err != nil {
		return nil, err
	}
	s, err := redisstreamidem.Open(ctx, client, streamOptions())
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return both{s, closer{func() { _ = client.Close() }}}, nil
}

func publishToStream(_ context.Context, url string) (outbox.Publisher, error) {
	client, err := rueidisTo(url)
	if err != nil {
		return nil, err
	}
	return redisstreamidem.NewPublisher(client, nil)
}

func deadLettersOfStream(_ context.Context, url string) (mqidem.DeadLetters, io.Closer, error) {
	client, err := rueidisTo(url)
	if err != nil {
		return nil, nil, err
	}
	p, err := redisstreamidem.NewDeadLetters(client, streamOptions())
	return p, closer{func() { _ = client.Close() }}, err
}

func startStreams(t *testing.T) *broker {
	t.Helper()
	server := servertest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	p := servertest.StartProxy(t, server.Addr)
	return &broker{url: "redis://" + p.Addr, cut: p.Break, restart: func(t *testing.T) {
		t.Helper()
		server.Kill()
		server.Restart(t)
	}}
}

func natsOptions() *natsidem.Options {
	return &natsidem.Options{Stream: queue, Consumer: "effect", Subjects: []string{queue}, AckWait: silence, Logger: quiet}
}

func natsTo(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

func openNATS(ctx context.Context, url string) (source, error) {
	nc, js, err := natsTo(url)
	if err != nil {
		return nil, err
	}
	var s *natsidem.Source
	err = natsidem.Create(ctx, js, jetstream.StreamConfig{Subjects: []string{queue}, Storage: jetstream.FileStorage, Duplicates: time.Second}, natsOptions())
	if err == nil {
		s, err = natsidem.Open(ctx, js, natsOptions())
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return both{s, closer{nc.Close}}, nil
}

func publishToNATS(_ context.Context, url string) (outbox.Publisher, error) {
	_, js, err := natsTo(url)
	if err != nil {
		return nil, err
	}
	return natsidem.NewPublisher(js, nil)
}

func deadLettersOfNATS(ctx context.Context, url string) (mqidem.DeadLetters, io.Closer, error) {
	nc, js, err := natsTo(url)
	if err != nil {
		return nil, nil, err
	}
	p, err := natsidem.OpenDeadLetters(ctx, js, natsOptions())
	return p, closer{nc.Close}, err
}

func startNATS(t *testing.T) *broker {
	t.Helper()
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	n, _ := strconv.Atoi(port)
	dir := t.TempDir()
	var s *server.Server
	start := func(t *testing.T) {
		t.Helper()
		var err error
		s, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: n, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true, SyncAlways: true})
		assert.NoError(t, err, "server")
		s.Start()
		assert.True(t, s.ReadyForConnections(time.Minute), "the server answers")
	}
	stop := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	start(t)
	t.Cleanup(func() { stop() })
	p := servertest.StartProxy(t, net.JoinHostPort("127.0.0.1", port))
	state := func(ctx context.Context) string {
		nc, js, err := natsTo("nats://" + net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return err.Error()
		}
		defer nc.Close()
		c, err := js.Consumer(ctx, queue, "effect")
		if err != nil {
			return err.Error()
		}
		i := c.CachedInfo()
		return fmt.Sprintf("delivered %+v, ack floor %+v, ack pending %d, redelivered %d, waiting %d, pending %d, configured %+v",
			i.Delivered, i.AckFloor, i.NumAckPending, i.NumRedelivered, i.NumWaiting, i.NumPending, i.Config)
	}
	return &broker{url: "nats://" + p.Addr, cut: p.Break, state: state, restart: func(t *testing.T) {
		t.Helper()
		stop()
		start(t)
	}}
}

func kafkaOptions() *kafkaidem.Options {
	return &kafkaidem.Options{Topic: queue, Group: "effect", Unordered: true, Handover: time.Second, Logger: quiet}
}

// kafkaTo returns the options of a connection. The addresses are those of the nodes; with "!"
// before them, the brokers assign the partitions (KIP-848).
func kafkaTo(url string) []kgo.Opt {
	addrs, brokersAssign := strings.CutPrefix(url, "!")
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(addrs, ",")...), kgo.SessionTimeout(silence), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
	}
	if brokersAssign {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return opts
}

func openKafka(ctx context.Context, url string) (source, error) {
	if err := kafkaidem.Create(ctx, &kafkaidem.TopicOptions{Partitions: 6, Configs: map[string]string{"retention.ms": "1800000"}}, kafkaOptions(), kafkaTo(url)...); err != nil {
		return nil, err
	}
	return kafkaidem.Open(ctx, kafkaOptions(), kafkaTo(url)...)
}

func publishToKafka(_ context.Context, url string) (outbox.Publisher, error) {
	return kafkaidem.NewPublisher(kafkaTo(url)...)
}

func deadLettersOfKafka(ctx context.Context, url string) (mqidem.DeadLetters, io.Closer, error) {
	p, err := kafkaidem.OpenDeadLetters(ctx, kafkaOptions(), kafkaTo(url)...)
	if err != nil {
		return nil, nil, err
	}
	return p, closer{func() { _ = p.Close() }}, nil
}

// startKafka starts a cluster: of one node where only consumers are disturbed, and of three in a
// soak. There a node is killed, or hangs for longer than the others wait for it, so that partitions
// and the group get other leaders.
func startKafka(t *testing.T) *broker {
	t.Helper()
	if os.Getenv("RETRYSAFE_SOAK") == "" {
		return &broker{url: servertest.StartKafka(t, 1).Nodes[0].Addr}
	}
	k := servertest.StartKafka(t, 3)
	kill := func(t *testing.T) {
		t.Helper()
		n := k.Nodes[rand.IntN(len(k.Nodes))]
		n.Kill()
		n.Restart(t)
		// it catches up, since two nodes must have each message
		_ = pauseFor(t.Context(), 5*time.Second)
	}
	hang := func() {
		n := k.Nodes[rand.IntN(len(k.Nodes))]
		n.Pause()
		_ = pauseFor(t.Context(), 6*time.Second)
		n.Resume()
		_ = pauseFor(t.Context(), 5*time.Second)
	}
	return &broker{url: strings.Join(k.ListenAddrs(), ","), restart: kill, cut: func() {
		if rand.IntN(2) == 0 {
			kill(t)
		} else {
			hang()
		}
	}}
}

func startKafkaThatAssigns(t *testing.T) *broker {
	t.Helper()
	b := startKafka(t)
	b.url = "!" + b.url
	return b
}
