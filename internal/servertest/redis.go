package servertest

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Redis is a test's redis-server.
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
	r := &Redis{Addr: "127.0.0.1:" + port(tb), dir: folder(tb), args: args}
	r.Restart(tb)
	tb.Cleanup(r.Kill)
	return r
}

// Restart starts the server on its existing data, after Kill.
func (r *Redis) Restart(tb testing.TB) {
	tb.Helper()
	_, p, _ := net.SplitHostPort(r.Addr)
	r.process.Start(tb, exec.Command(Program(tb, "redis-server", "redis-server"), append([]string{
		"--port", p, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no", "--daemonize", "no", "--shutdown-timeout", "0",
	}, r.args...)...))
	r.process.Await(tb, "redis-server", func() bool { return pong(r.Addr) })
}

func pong(addr string) bool {
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
