// Package exampletest runs the examples as processes, as a user runs them: it starts them, sends
// them requests, and kills them.
package exampletest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "RETRYSAFE_EXAMPLE"

// Main is for TestMain. It runs program in the processes that [Start] starts, and the tests in any
// other.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// Program is a process of an example, or of a service in another language.
type Program struct {
	// Addr is host:port.
	Addr string

	name    string
	extra   []string
	command func() *exec.Cmd
	process servertest.Process
}

// Start starts the program of the test binary in a new folder, with -listen and args, and returns
// when it accepts connections. It ends with the test.
func Start(t *testing.T, args ...string) *Program {
	t.Helper()
	self, err := os.Executable()
	assert.NoError(t, err, "executable")
	return StartCommand(t, t.TempDir(), self, func(address string) []string { return append([]string{"-listen", address}, args...) })
}

// StartCommand starts another program in the folder dir. args returns its arguments for the
// address that it shall listen on.
func StartCommand(t *testing.T, dir, name string, args func(address string) []string) *Program {
	t.Helper()
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	p := &Program{Addr: net.JoinHostPort("127.0.0.1", port), name: name}
	p.command = func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), name, append(args(p.Addr), p.extra...)...)
		c.Dir, c.Env = dir, append(os.Environ(), asProgram+"=1", "RETRYSAFE_SECRET=only for this test")
		return c
	}
	t.Cleanup(p.Kill)
	p.Restart(t)
	return p
}

// Build builds a program of the repository, and returns its path.
func Build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg).CombinedOutput()
	assert.NoError(t, err, "build %s: %s", pkg, out)
	return path
}

// Restart starts the program again, in the same folder.
func (p *Program) Restart(t *testing.T) {
	t.Helper()
	p.process.Start(t, p.command())
	p.process.Await(t, p.name, func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// Args sets more arguments for the next Restart.
func (p *Program) Args(args ...string) { p.extra = args }

// AwaitOutput waits until the program has written text.
func (p *Program) AwaitOutput(t *testing.T, text string) {
	t.Helper()
	Await(t, text, func() bool { return strings.Contains(p.process.Output(), text) })
}

// Kill ends the program with SIGKILL.
func (p *Program) Kill() { p.process.End(syscall.SIGKILL) }

// Stop ends the program as Ctrl-C does, and checks that it ends without an error.
func (p *Program) Stop(t *testing.T) {
	t.Helper()
	p.process.Stop(t, syscall.SIGINT)
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Replayed reports whether the answer is a stored one.
func (a Answer) Replayed() bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// client follows no redirect, and keeps no connection to a process that may be killed.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       5 * time.Minute,
}

// Send sends a request: its body, if there is one, and the fields "Name: value".
func (p *Program) Send(ctx context.Context, method, path, body string, fields ...string) (a Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addr+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}

// Do is Send, and the program must answer.
func (p *Program) Do(t *testing.T, method, path, body string, fields ...string) Answer {
	t.Helper()
	a, err := p.Send(t.Context(), method, path, body, fields...)
	assert.NoError(t, err, "%s %s", method, path)
	return a
}

// Retry is Do, and sends the request again, as a client does, while the program says "not now" with
// Retry-After.
func (p *Program) Retry(t *testing.T, method, path, body string, fields ...string) Answer {
	t.Helper()
	return p.AtOnce(t, 1, method, path, body, fields...)[0]
}

// AtOnce is Retry for copies of one request that are sent at the same time.
func (p *Program) AtOnce(t *testing.T, copies int, method, path, body string, fields ...string) []Answer {
	t.Helper()
	all, errs := make([]Answer, copies), make([]error, copies)
	var group sync.WaitGroup
	for i := range copies {
		group.Go(func() {
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
				all[i], errs[i] = p.Send(t.Context(), method, path, body, fields...)
				if errs[i] != nil || all[i].Header.Get("Retry-After") == "" {
					return
				}
			}
		})
	}
	group.Wait()
	assert.NoError(t, errors.Join(errs...), "%s %s", method, path)
	return all
}

// Await waits until ok returns true.
func Await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); <-time.After(50 * time.Millisecond) {
		assert.True(t, time.Now().Before(end), "not seen in five minutes: %s", what)
	}
}
