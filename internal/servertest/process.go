// Package servertest starts real servers for tests: on loopback, each on its own port, in temporary
// folders. If a server cannot be started, the test fails and says which package to install.
package servertest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// Process is a program that a test has started. It ends at the latest with the test binary. The
// zero value has not been started.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	said  output
}

// output collects the program's output.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Start starts c. It can be called again when the process has ended; its output is kept.
func (p *Process) Start(tb testing.TB, c *exec.Cmd) {
	tb.Helper()
	p.cmd = c
	c.Stdout, c.Stderr = &p.said, &p.said
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	if c.SysProcAttr.Pdeathsig == 0 {
		c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	assert.NoError(tb, c.Start(), "start %s", c.Path)
	ended := make(chan struct{})
	p.ended = ended
	go func() {
		_ = c.Wait()
		close(ended)
	}()
}

// Await waits until the server answers. It fails if the process has ended.
func (p *Process) Await(tb testing.TB, name string, answers func() bool) {
	tb.Helper()
	for end := time.Now().Add(8 * time.Minute); !answers(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			tb.Fatalf("%s has ended:\n%s", name, p.said.String())
		default:
		}
		if time.Now().After(end) {
			p.End(syscall.SIGKILL)
			tb.Fatalf("%s does not answer:\n%s", name, p.said.String())
		}
	}
}

// End sends a signal that ends the process, and waits for its end. It does nothing if the process
// has ended or was not started.
func (p *Process) End(sig syscall.Signal) {
	if p.Running() {
		_ = p.cmd.Process.Signal(sig)
		<-p.ended
	}
}

// Stop is End, and the process must say that nothing went wrong.
func (p *Process) Stop(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	p.End(sig)
	assert.True(tb, p.cmd.ProcessState.Success(), "%s ends with %v:\n%s", p.cmd.Path, p.cmd.ProcessState, p.said.String())
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	if p.ended == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Output returns what the program has written so far to its standard output and error.
func (p *Process) Output() string { return p.said.String() }

// Pid returns the number of the process, which must have been started.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Program finds a program in the given folders, or on the PATH.
func Program(tb assert.T, name, debianPackage string, folders ...string) string {
	tb.Helper()
	for _, dir := range folders {
		if path := dir + "/" + name; fileExists(path) {
			return path
		}
	}
	path, err := exec.LookPath(name)
	assert.NoError(tb, err, "%s is not installed: apt-get install -y %s", name, debianPackage)
	return path
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// folderName replaces what separates paths, or lists of them in a server's configuration.
var folderName = strings.NewReplacer("/", "-", ",", "", ":", "")

// newFolder creates a folder for a server, which is removed with the test.
func newFolder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-"+folderName.Replace(strings.ToLower(tb.Name()))+"-")
	assert.NoError(tb, err, "a folder")
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// freePort returns a port that is not in use.
func freePort(tb testing.TB) string {
	tb.Helper()
	p, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	return p
}

// freePorts returns n ports in a row.
func freePorts(tb testing.TB, n int) []string {
	tb.Helper()
	row, err := freeport.GetRow(n)
	assert.NoError(tb, err, "free ports")
	return row
}

// askFrame sends a frame to a server, and returns the frame that it answers with. The length of a
// frame, in four bytes, comes before it.
func askFrame(addr string, frame []byte) ([]byte, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, min(binary.BigEndian.Uint32(length[:]), 1<<20))
	_, err = io.ReadFull(c, answer)
	return answer, err
}
