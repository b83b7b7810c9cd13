package redisstreamidem_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var quiet = slog.New(slog.DiscardHandler)

// redisServer is a server on loopback.
type redisServer struct {
	addr, dir string
	args      []string
	cmd       *exec.Cmd
	said      bytes.Buffer
}

func startRedis(tb assert.T, dir string, args ...string) *redisServer {
	tb.Helper()
	port, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	s := &redisServer{addr: "127.0.0.1:" + port, dir: dir, args: args}
	s.start(tb)
	return s
}

func (s *redisServer) start(tb assert.T) {
	tb.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = kind.Command(tb, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no", "--shutdown-timeout", "0", "--protected-mode", "no",
	}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(tb, s.cmd.Start(), "start the server")
	for end := time.Now().Add(3 * time.Minute); !s.isUp(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%s does not answer:\n%s", kind.Name, s.said.String())
		}
	}
}

func (s *redisServer) isUp() bool {
	c, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, "PING\r\n")
	buf := make([]byte, 16)
	n, _ := c.Read(buf)
	return strings.HasPrefix(string(buf[:n]), "+PONG") || strings.HasPrefix(string(buf[:n]), "-NOAUTH")
}

func (s *redisServer) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func ownRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	s := startRedis(t, t.TempDir(), args...)
	t.Cleanup(s.kill)
	return s
}

var (
	kind    servertest.RedisServer // that the tests run on now
	sharing sync.Once
	shared  *redisServer
	folder  string
)

// TestMain runs all tests on each kind of server.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they compute
	code := 0
	for _, kind = range servertest.RedisServers() {
		if failed := m.Run(); failed != 0 {
			fmt.Println("the tests above ran on", kind.Name)
			code = failed
		}
		if shared != nil {
			shared.kill()
		}
		if folder != "" {
			_ = os.RemoveAll(folder)
		}
		sharing, shared, folder = sync.Once{}, nil, ""
	}
	os.Exit(code)
}

// sharedRedis returns a server for all tests that do not disturb it.
func sharedRedis(tb assert.T) *redisServer {
	tb.Helper()
	sharing.Do(func() {
		dir, err := os.MkdirTemp("", "retrysafe-streams")
		assert.NoError(tb, err, "a folder")
		folder, shared = dir, startRedis(tb, dir)
	})
	return shared
}

// client is a redisclient of rueidis, like that of adapters/rueidisclient.
type client struct{ rueidis.Client }

func dial(tb testing.TB, addr string, change func(*rueidis.ClientOption)) client {
	tb.Helper()
	o := rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableRetry: true, DisableCache: true, ConnWriteTimeout: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	r, err := rueidis.NewClient(o)
	assert.NoError(tb, err, "connect")
	tb.Cleanup(r.Close)
	return client{r}
}

func (c client) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	r := c.do(ctx, "EVALSHA", call.Script.SHA1, call)
	if r.UnknownScript() {
		r = c.do(ctx, "EVAL", call.Script.Source, call)
	}
	return r
}

func (c client) do(ctx context.Context, name, script string, call redisclient.Call) redisclient.Reply {
	cmd := c.B().Arbitrary(name, script, strconv.Itoa(len(call.Keys))).Keys(call.Keys...).Args(call.Args...).Build()
	v, err := c.Do(ctx, cmd).ToAny()
	if rueidis.IsRedisNil(err) {
		return redisclient.Reply{}
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		err = redisclient.Error(e.Error())
	}
	return redisclient.Reply{Value: v, Err: err}
}

// command runs a command and returns its reply.
func (c client) command(tb testing.TB, words ...string) any {
	tb.Helper()
	v, err := c.Do(tb.Context(), c.B().Arbitrary(words...).Build()).ToAny()
	if !rueidis.IsRedisNil(err) {
		assert.NoError(tb, err, "%s", words[0])
	}
	return v
}

var names atomic.Int64

// queue is a stream with a group that no other test uses.
type queue struct {
	c    client
	addr string
	o    redisstreamidem.Options
	pub  *redisstreamidem.Publisher
}

func newQueue(tb testing.TB, addr string, change func(*redisstreamidem.Options)) *queue {
	tb.Helper()
	q := &queue{c: dial(tb, addr, nil), addr: addr, o: redisstreamidem.Options{
		Stream: fmt.Sprint("orders", names.Add(1)), Group: "stock", Idle: 30 * time.Second, Prefetch: -1, Timeout: time.Minute, Logger: quiet,
	}}
	if change != nil {
		change(&q.o)
	}
	var err error
	q.pub, err = redisstreamidem.NewPublisher(q.c, &redisstreamidem.PublisherOptions{Timeout: time.Minute})
	assert.NoError(tb, err, "publisher")
	return q
}

// open returns a source on its own client.
func (q *queue) open(tb testing.TB) *redisstreamidem.Source {
	tb.Helper()
	return q.openOn(tb, dial(tb, q.addr, nil))
}

func (q *queue) openOn(tb testing.TB, c redisclient.Client) *redisstreamidem.Source {
	tb.Helper()
	s, err := redisstreamidem.Open(tb.Context(), c, &q.o)
	assert.NoError(tb, err, "Open")
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func (q *queue) deadLetters(tb testing.TB) *redisstreamidem.DeadLetters {
	tb.Helper()
	p, err := redisstreamidem.NewDeadLetters(q.c, &q.o)
	assert.NoError(tb, err, "NewDeadLetters")
	return p
}

func (q *queue) listDead(tb testing.TB) (found []*mqidem.DeadLetter) {
	tb.Helper()
	assert.NoError(tb, q.deadLetters(tb).Walk(tb.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		found = append(found, p)
		return mqidem.Keep, nil
	}), "Walk")
	return found
}

func (q *queue) publish(tb testing.TB, ids ...string) {
	tb.Helper()
	var batch []outbox.Outgoing
	for _, id := range ids {
		batch = append(batch, outbox.Outgoing{Message: outbox.Message{ID: id, Topic: q.o.Stream, Payload: []byte(id)}})
	}
	for i, err := range q.pub.Publish(tb.Context(), batch) {
		assert.NoError(tb, err, "publish %s", ids[i])
	}
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

// heard is a log.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) logger() *slog.Logger { return slog.New(slog.NewTextHandler(h, nil)) }

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func newStore() *memstore.Store { return memstore.New(nil) }

// callWithin makes a call with its own context.
func callWithin(t *testing.T, d time.Duration, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return call(ctx)
}

// eventually waits for something that another program does.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		assert.True(tb, time.Now().Before(end), "%s", what)
	}
}

func busPort(tb testing.TB) int {
	tb.Helper()
	port, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	n, _ := strconv.Atoi(port)
	return n
}
