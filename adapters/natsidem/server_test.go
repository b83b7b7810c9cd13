package natsidem_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

var quiet = slog.New(slog.DiscardHandler)

// natsServer is a server in this process, on loopback. It can be stopped and restarted on its data.
type natsServer struct {
	opts *server.Options
	srv  *server.Server
}

func startServer(tb assert.T, dir string, change func(*server.Options)) *natsServer {
	tb.Helper()
	port, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	n, _ := strconv.Atoi(port)
	s := &natsServer{opts: &server.Options{Host: "127.0.0.1", Port: n, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}}
	if change != nil {
		change(s.opts)
	}
	s.start(tb)
	return s
}

func (s *natsServer) start(tb assert.T) {
	tb.Helper()
	var err error
	opts := *s.opts
	s.srv, err = server.NewServer(&opts)
	assert.NoError(tb, err, "server")
	s.srv.Start()
	if !s.srv.ReadyForConnections(2 * time.Minute) {
		tb.Fatalf("the server does not start")
	}
}

func (s *natsServer) stop() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

func (s *natsServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.opts.Port)) }

// ownServer returns a server for one test.
func ownServer(t *testing.T, change func(*server.Options)) *natsServer {
	t.Helper()
	s := startServer(t, t.TempDir(), change)
	t.Cleanup(func() { s.stop() })
	return s
}

var (
	sharing sync.Once
	shared  *natsServer
	folder  string
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they compute
	code := m.Run()
	if shared != nil {
		shared.stop()
	}
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// sharedServer returns a server for all tests that do not disturb it.
func sharedServer(tb assert.T) *natsServer {
	tb.Helper()
	sharing.Do(func() {
		dir, err := os.MkdirTemp("", "retrysafe-nats")
		assert.NoError(tb, err, "a folder")
		folder, shared = dir, startServer(tb, dir, nil)
	})
	return shared
}

// connect returns a connection that reconnects quickly.
func connect(tb testing.TB, addr string, more ...nats.Option) jetstream.JetStream {
	tb.Helper()
	options := append([]nats.Option{
		nats.Timeout(time.Minute), nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, more...)
	nc, err := nats.Connect("nats://"+addr, options...)
	assert.NoError(tb, err, "connect")
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Minute))
	assert.NoError(tb, err, "JetStream")
	return js
}

var names atomic.Int64

// queue is a stream with a consumer that no other test uses.
type queue struct {
	js      jetstream.JetStream
	o       natsidem.Options
	subject string
	pub     *natsidem.Publisher
}

func newQueue(tb testing.TB, addr string, change func(*natsidem.Options, *jetstream.StreamConfig)) *queue {
	tb.Helper()
	name := fmt.Sprint("orders", names.Add(1))
	q := &queue{js: connect(tb, addr), subject: name + ".placed", o: natsidem.Options{Stream: name, Consumer: "stock", AckWait: 30 * time.Second, Timeout: time.Minute, Prefetch: -1, Logger: quiet}}
	stream := jetstream.StreamConfig{Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage}
	if change != nil {
		change(&q.o, &stream)
	}
	assert.NoError(tb, natsidem.Create(tb.Context(), q.js, stream, &q.o), "Create")
	assert.NoError(tb, natsidem.Create(tb.Context(), q.js, stream, &q.o), "Create, once more")
	var err error
	q.pub, err = natsidem.NewPublisher(q.js, &natsidem.PublisherOptions{Timeout: time.Minute})
	assert.NoError(tb, err, "publisher")
	tb.Cleanup(func() { _ = q.pub.Close() })
	return q
}

// open returns a source on its own connection.
func (q *queue) open(tb testing.TB) *natsidem.Source {
	tb.Helper()
	return q.openOn(tb, connect(tb, q.js.Conn().ConnectedAddr()))
}

func (q *queue) openOn(tb testing.TB, js jetstream.JetStream) *natsidem.Source {
	tb.Helper()
	s, err := natsidem.Open(tb.Context(), js, &q.o)
	assert.NoError(tb, err, "Open")
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func (q *queue) deadLetters(tb testing.TB) *natsidem.DeadLetters {
	tb.Helper()
	p, err := natsidem.OpenDeadLetters(tb.Context(), q.js, &q.o)
	assert.NoError(tb, err, "OpenDeadLetters")
	return p
}

func (q *queue) publish(tb testing.TB, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		assert.NoError(tb, q.pub.Publish(tb.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: id, Topic: q.subject, Payload: []byte(id)}}})[0], "publish %s", id)
	}
}

// losePlace deletes the consumer, and creates it again.
func (q *queue) losePlace(tb testing.TB) {
	tb.Helper()
	assert.NoError(tb, q.js.DeleteConsumer(tb.Context(), q.o.Stream, q.o.Consumer), "DeleteConsumer")
	assert.NoError(tb, natsidem.Create(tb.Context(), q.js, jetstream.StreamConfig{}, &q.o), "Create")
}

// purge removes all messages of the stream.
func (q *queue) purge(tb testing.TB) {
	tb.Helper()
	s, err := q.js.Stream(tb.Context(), q.o.Stream)
	assert.NoError(tb, err, "the stream")
	assert.NoError(tb, s.Purge(tb.Context()), "Purge")
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

// proxy stands between a client and the server. A stall holds back what the server sends.
type proxy struct {
	*servertest.Proxy

	mu     sync.Mutex
	noAcks bool // acks get lost on their way to the server
	lost   int  // the number of lost acks
	beats  int  // progress reports
	asked  int  // requests to JetStream
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	p := new(proxy)
	p.Proxy = servertest.NewProxy(tb, to)
	p.Serve(func(client, server net.Conn) {
		servertest.Both(client, server, func() { _, _ = io.Copy(heard{server, p}, client) }, func() { p.Copy(client, server) })
	})
	return p
}

// heard drops acks while noAcks is set.
type heard struct {
	net.Conn
	p *proxy
}

var anAck = regexp.MustCompile(`PUB \$JS\.ACK\.\S+ \S+ 4\r\n\+ACK\r\n`)

func (h heard) Write(b []byte) (int, error) {
	h.p.mu.Lock()
	drop := h.p.noAcks
	h.p.beats += bytes.Count(b, []byte("+WPI\r\n"))
	h.p.asked += bytes.Count(b, []byte("PUB $JS.API."))
	h.p.mu.Unlock()
	if drop {
		if _, err := h.Conn.Write(anAck.ReplaceAllFunc(b, func([]byte) []byte {
			h.p.mu.Lock()
			defer h.p.mu.Unlock()
			h.p.lost++
			return nil
		})); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// lostAndBeats returns the numbers of lost acks and of progress reports.
func (p *proxy) lostAndBeats() (lost, beats int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost, p.beats
}

func (p *proxy) questionCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		assert.True(tb, time.Now().Before(end), "%s", what)
	}
}

// beatsGoOn waits for two more progress reports.
func (p *proxy) beatsGoOn(tb testing.TB) {
	tb.Helper()
	_, before := p.lostAndBeats()
	eventually(tb, "the server is told that it is in work", func() bool {
		_, beats := p.lostAndBeats()
		return beats >= before+2
	})
}

func (p *proxy) loseAcks(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noAcks = lose
}
