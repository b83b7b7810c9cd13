// Package child runs parts of a test as processes that can be killed: copies of the test binary.
package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// ChildEnv names the part that a copy of this test binary plays instead of running tests: a
// separate process that can be killed.
const ChildEnv = "RETRYSAFE_TEST_CHILD"

// Parts are the parts, by name. The test that starts a part reads its output line by line.
var Parts = map[string]func(args []string) error{}

// Process is a child process.
type Process struct {
	Cmd    *exec.Cmd
	Stdin  io.WriteCloser
	lines  *bufio.Scanner
	Stderr strings.Builder
}

// Start starts a copy of this binary in a part. It ends with the test at the latest.
func Start(t *testing.T, part string, args ...string) *Process {
	t.Helper()
	exe, err := os.Executable()
	assert.NoError(t, err, "find the test binary")
	c := &Process{Cmd: exec.CommandContext(t.Context(), exe, args...)}
	c.Cmd.Env = append(os.Environ(), ChildEnv+"="+part)
	c.Cmd.Stderr = &c.Stderr
	c.Stdin, err = c.Cmd.StdinPipe()
	assert.NoError(t, err, "standard input of the child")
	stdout, err := c.Cmd.StdoutPipe()
	assert.NoError(t, err, "standard output of the child")
	c.lines = bufio.NewScanner(stdout)
	assert.NoError(t, c.Cmd.Start(), "start the child")
	t.Cleanup(func() { _ = c.Cmd.Process.Kill() })
	return c
}

// Read returns the next line, or false when the child has closed its output.
func (c *Process) Read() (string, bool) {
	ok := c.lines.Scan()
	return c.lines.Text(), ok
}

// Wait waits until the child has ended and all of its output was read. It reports whether the child
// was killed.
func (c *Process) Wait(t *testing.T) (killed bool) {
	t.Helper()
	for c.lines.Scan() {
		continue
	}
	err := c.Cmd.Wait()
	if status, ok := c.Cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	assert.NoError(t, err, "the child ends well: %s", c.Stderr.String())
	return false
}

// Die kills the calling child at this very point, with no chance to clean up.
func Die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
