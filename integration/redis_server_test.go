package integration_test

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/redisstore"
)

// redisServer is a server for one test, on loopback.
type redisServer struct {
	addr  string
	shift time.Duration // how far its clock is off
	cmd   *exec.Cmd
	said  bytes.Buffer
}

// freePort returns a port that is free now.
func freePort(tb testing.TB) string {
	tb.Helper()
	port, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	return port
}

// startRedis runs redis-server in a separate folder until the test ends.
func startRedis(tb testing.TB, args ...string) *redisServer {
	tb.Helper()
	return startRedisShifted(tb, 0, args...)
}

// startRedisShifted is startRedis with a clock that is off by whole seconds.
func startRedisShifted(tb testing.TB, shift time.Duration, args ...string) *redisServer {
	tb.Helper()
	s := &redisServer{addr: "127.0.0.1:" + freePort(tb), shift: shift}
	s.start(tb, tb.TempDir(), args...)
	return s
}

func (s *redisServer) start(tb testing.TB, dir string, args ...string) {
	tb.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	path, err := exec.LookPath("redis-server")
	assert.NoError(tb, err, "redis-server is not installed: apt-get install -y redis-server")
	s.cmd = exec.Command(path, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
		"--shutdown-timeout", "0", "--protected-mode", "no", "--enable-debug-command", "local",
	}, args...)...)
	if s.shift != 0 {
		s.cmd.Env = append(os.Environ(), "LD_PRELOAD="+shiftClock(tb), fmt.Sprintf("CLOCK_SHIFT=%d", int(s.shift.Seconds())))
	}
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(tb, s.cmd.Start(), "start redis-server")
	tb.Cleanup(s.kill)
	s.await(tb)
}

//go:embed testdata/shiftclock.c
var shiftClockSource []byte

// shiftClock builds a library that shifts the clock of the program that loads it. (The library of
// the command faketime does not work with the server's memory allocator.)
func shiftClock(tb testing.TB) string {
	tb.Helper()
	cc, err := exec.LookPath("cc")
	assert.NoError(tb, err, "a C compiler is not installed: apt-get install -y gcc libc6-dev")
	dir := tb.TempDir()
	source, lib := filepath.Join(dir, "shiftclock.c"), filepath.Join(dir, "shiftclock.so")
	assert.NoError(tb, os.WriteFile(source, shiftClockSource, 0o600), "the library's source")
	said, err := exec.CommandContext(tb.Context(), cc, "-shared", "-fPIC", "-O1", "-o", lib, source).CombinedOutput()
	assert.NoError(tb, err, "compile: %s", said)
	return lib
}

func (s *redisServer) await(tb testing.TB) {
	tb.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(time.Second))
			_, _ = c.Write([]byte("PING\r\n"))
			buf := make([]byte, 16)
			n, _ := c.Read(buf)
			_ = c.Close()
			if strings.HasPrefix(string(buf[:n]), "+PONG") {
				return
			}
		}
		if time.Now().After(end) {
			tb.Fatalf("redis-server does not answer on %s:\n%s", s.addr, s.said.String())
		}
	}
}

func (s *redisServer) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// stall stops the process: it accepts requests and answers none.
func (s *redisServer) stall() (resume func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// redisClients are the adapters; each connects to the servers of an address.
var redisClients = map[string]func(t *testing.T, url string) redisclient.Client{
	"rueidis": func(t *testing.T, url string) redisclient.Client {
		t.Helper()
		return rueidisTo(t, url)
	},
	"go-redis": func(t *testing.T, url string) redisclient.Client {
		t.Helper()
		a, err := redisclient.ParseURL(url)
		assert.NoError(t, err, "address")
		var r redis.UniversalClient
		switch a.Mode {
		case redisclient.Sentinel:
			r = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: a.Name, SentinelAddrs: a.Hosts})
		case redisclient.Cluster:
			r = redis.NewClusterClient(&redis.ClusterOptions{Addrs: a.Hosts})
		default:
			r = redis.NewClient(&redis.Options{Addr: a.Hosts[0], Username: a.Username, Password: a.Password})
		}
		t.Cleanup(func() { _ = r.Close() })
		c, err := goredisclient.New(r)
		assert.NoError(t, err, "client")
		return c
	},
}

// rueidisTo returns a client of the servers.
func rueidisTo(tb testing.TB, url string) *rueidisclient.Client {
	tb.Helper()
	if !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	a, err := redisclient.ParseURL(url)
	assert.NoError(tb, err, "address")
	c, err := rueidisclient.Open(a)
	assert.NoError(tb, err, "connect")
	tb.Cleanup(c.Close)
	return c
}

// counted counts the round trips.
type counted struct {
	redisclient.Client
	trips atomic.Int64
}

func (c *counted) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	c.trips.Add(1)
	return c.Client.Eval(ctx, call)
}

func (c *counted) EvalMany(ctx context.Context, calls []redisclient.Call) []redisclient.Reply {
	c.trips.Add(1)
	return c.Client.(redisclient.Pipeliner).EvalMany(ctx, calls) //nolint:errcheck,forcetypeassert // both adapters have it
}

func (c *counted) Subscribe(ctx context.Context, channel string, on func(payload string)) error {
	return c.Client.(redisclient.Subscriber).Subscribe(ctx, channel, on) //nolint:errcheck,forcetypeassert // both adapters have it
}

func (c *counted) EachPrimary(ctx context.Context, f func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	return c.Client.(redisclient.Nodes).EachPrimary(ctx, f) //nolint:errcheck,forcetypeassert // both adapters have it
}

func redisOn(tb testing.TB, c redisclient.Client, o *redisstore.Options) *redisstore.Store {
	tb.Helper()
	own := redisstore.Options{} // a copy: parallel callers share theirs
	if o != nil {
		own = *o
	}
	own.Logger = slog.New(slog.DiscardHandler)
	s, err := redisstore.New(tb.Context(), c, &own)
	assert.NoError(tb, err, "store")
	return s
}
