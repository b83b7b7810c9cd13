package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// childEnv names the part that a copy of this test binary plays instead of running tests: a
// separate process that can be killed.
const childEnv = "RETRYSAFE_TEST_CHILD"

// children are the parts, by name. The test that starts a part reads its output line by line.
var children = map[string]func(args []string) error{}

func runMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		// They share a store.
		_ = os.Setenv("RETRYSAFE_SECRET", "that of all gateways of these tests")
		code := m.Run()
		cleanUp()
		_ = os.RemoveAll(newPostgresDir)
		_ = os.RemoveAll(newMySQLDir)
		os.Exit(code)
	}
	play, ok := children[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "there is no such part:", name)
		os.Exit(2)
	}
	if err := play(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// patience is how long tests wait for something that happens soon. It is much longer than a busy
// machine needs, since a wait ends as soon as it has happened.
const patience = 3 * time.Minute

// long is a time limit that no test reaches.
const long = time.Hour

// child is a child process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Scanner
	stderr strings.Builder
}

// startChild starts a copy of this binary in a part. It ends with the test at the latest.
func startChild(t *testing.T, part string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	assert.NoError(t, err, "find the test binary")
	c := &child{cmd: exec.CommandContext(t.Context(), exe, args...)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+part)
	c.cmd.Stderr = &c.stderr
	c.stdin, err = c.cmd.StdinPipe()
	assert.NoError(t, err, "standard input of the child")
	stdout, err := c.cmd.StdoutPipe()
	assert.NoError(t, err, "standard output of the child")
	c.lines = bufio.NewScanner(stdout)
	assert.NoError(t, c.cmd.Start(), "start the child")
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// read returns the next line, or false when the child has closed its output.
func (c *child) read() (string, bool) {
	ok := c.lines.Scan()
	return c.lines.Text(), ok
}

// wait waits until the child has ended and all of its output was read. It reports whether the child
// was killed.
func (c *child) wait(t *testing.T) (killed bool) {
	t.Helper()
	for c.lines.Scan() {
		continue
	}
	err := c.cmd.Wait()
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	assert.NoError(t, err, "the child ends well: %s", c.stderr.String())
	return false
}

// die kills the calling child at this very point, with no chance to clean up.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
