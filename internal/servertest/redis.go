package servertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// RedisServer is Redis, or a server with its commands, in a version that tests run on.
type RedisServer struct{ row }

// RedisServers returns the servers that tests run on; the first one is for tests that need only
// one. RETRYSAFE_REDIS chooses another one for all tests; see servers/tested.list.
func RedisServers() (all []RedisServer) {
	for _, r := range chosenRows("RETRYSAFE_REDIS", "Redis", "Valkey") {
		all = append(all, RedisServer{r})
	}
	return all
}

// Command returns the command that runs the server. With the arguments FILE and --sentinel it runs
// as Sentinel.
func (s RedisServer) Command(tb assert.T, args ...string) *exec.Cmd {
	tb.Helper()
	if s.fetched != "" {
		return exec.Command(filepath.Join(Fetched(tb, s.fetched), "bin", "valkey-server"), args...)
	}
	return exec.Command(Program(tb, "redis-server", "redis-server"), args...)
}

// Redis is a test's server with the commands of Redis.
type Redis struct {
	// Addr is host:port.
	Addr string

	process Process
	dir     string
	args    []string
}

// StartRedis runs a server until the test ends. args follow the usual ones, which store nothing on
// disk.
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	r := &Redis{Addr: "127.0.0.1:" + freePort(tb), dir: newFolder(tb), args: args}
	r.Restart(tb)
	tb.Cleanup(r.Kill)
	return r
}

// Restart starts the server on its existing data, after Kill.
func (r *Redis) Restart(tb testing.TB) {
	tb.Helper()
	_, p, _ := net.SplitHostPort(r.Addr)
	r.process.Start(tb, RedisServers()[0].Command(tb, append([]string{
		"--port", p, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no", "--daemonize", "no", "--shutdown-timeout", "0",
	}, r.args...)...))
	r.process.Await(tb, "redis-server", func() bool { return answersPing(r.Addr) })
}

func answersPing(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte("PING\r\n"))
	buf := make([]byte, 16)
	n, _ := c.Read(buf)
	return strings.HasPrefix(string(buf[:n]), "+PONG")
}

// Kill ends the server like a crash.
func (r *Redis) Kill() { r.process.End(syscall.SIGKILL) }

// Pause stops the server without closing its connections, as a machine that hangs does.
func (r *Redis) Pause() { _ = syscall.Kill(r.process.Pid(), syscall.SIGSTOP) }

// Resume continues the server after Pause.
func (r *Redis) Resume() { _ = syscall.Kill(r.process.Pid(), syscall.SIGCONT) }
