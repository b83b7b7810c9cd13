package servers

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// Murder ends the process as a crash of its machine does.
func (s *Redis) Murder() {
	_ = s.Cmd.Process.Signal(syscall.SIGKILL)
	_ = s.Cmd.Wait()
}

// Redis is a server for one test, on loopback.
type Redis struct {
	Addr  string
	Shift time.Duration // how far its clock is off
	Cmd   *exec.Cmd
	said  bytes.Buffer
	kind  *RedisKind
}

// FreePort returns a port that is free now.
func FreePort(tb testing.TB) string {
	tb.Helper()
	port, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	return port
}

// StartRedis runs a server of the first kind; see RedisKind.Start.
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return RedisKinds[0].Start(tb, args...)
}

// StartRedisShifted is StartRedis with a clock that is off by whole seconds.
func StartRedisShifted(tb testing.TB, shift time.Duration, args ...string) *Redis {
	tb.Helper()
	return RedisKinds[0].startShifted(tb, shift, args...)
}

// Start runs a server in a separate folder until the test ends.
func (k *RedisKind) Start(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return k.startShifted(tb, 0, args...)
}

// New returns a server that is not started.
func (k *RedisKind) New(tb testing.TB) *Redis {
	tb.Helper()
	return &Redis{Addr: "127.0.0.1:" + FreePort(tb), kind: k}
}

func (k *RedisKind) startShifted(tb testing.TB, shift time.Duration, args ...string) *Redis {
	tb.Helper()
	s := k.New(tb)
	s.Shift = shift
	s.Start(tb, tb.TempDir(), args...)
	return s
}

// Start starts the server with its data in dir. It is killed when the test ends.
func (s *Redis) Start(tb testing.TB, dir string, args ...string) {
	tb.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	s.Cmd = s.kind.Command(tb, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
		"--shutdown-timeout", "0", "--protected-mode", "no", "--enable-debug-command", "local",
	}, args...)...)
	if s.Shift != 0 {
		s.Cmd.Env = append(os.Environ(), "LD_PRELOAD="+ShiftClock(tb), fmt.Sprintf("CLOCK_SHIFT=%d", int(s.Shift.Seconds())))
	}
	s.Cmd.Stdout, s.Cmd.Stderr = &s.said, &s.said
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(tb, s.Cmd.Start(), "start the server")
	tb.Cleanup(s.Kill)
	s.awaitAnswer(tb)
}

//go:embed testdata/shiftclock.c
var shiftClockSource []byte

// ShiftClock builds a library that shifts the clock of the program that loads it. (The library of
// the command faketime does not work with the server's memory allocator.)
func ShiftClock(tb testing.TB) string {
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

func (s *Redis) awaitAnswer(tb testing.TB) {
	tb.Helper()
	dialer := net.Dialer{Timeout: time.Second}
	for end := time.Now().Add(waits.Patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := dialer.DialContext(context.Background(), "tcp", s.Addr)
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
			tb.Fatalf("%s does not answer on %s:\n%s", s.kind.Name, s.Addr, s.said.String())
		}
	}
}

// Kill kills the process if it still runs, and waits until it has ended.
func (s *Redis) Kill() {
	if s.Cmd.ProcessState == nil {
		_ = s.Cmd.Process.Signal(syscall.SIGCONT)
		_ = s.Cmd.Process.Kill()
		_ = s.Cmd.Wait()
	}
}

// Stall stops the process: it accepts requests and answers none.
func (s *Redis) Stall() (resume func()) {
	_ = s.Cmd.Process.Signal(syscall.SIGSTOP)
	return func() { _ = s.Cmd.Process.Signal(syscall.SIGCONT) }
}
