package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// asAdviser plays the program retrysafe-advise: it prints its arguments, and ends with 3.
func asAdviser(args []string) int {
	in, _ := io.ReadAll(os.Stdin)
	fmt.Printf("args %q, in %q\n", args, in)
	fmt.Fprintln(os.Stderr, "said on stderr")
	return 3
}

// TestAdvise: the command finds its program beside itself and in PATH, and passes its arguments on.
func TestAdvise(t *testing.T) {
	t.Parallel()
	empty, beside, inPath := t.TempDir(), t.TempDir(), t.TempDir()
	writeProgram(t, filepath.Join(beside, "retrysafe-advise"))
	writeProgram(t, filepath.Join(inPath, "retrysafe-advise"))
	for name, c := range map[string]struct{ dir, path string }{"beside": {beside, empty}, "in PATH": {empty, inPath}} {
		self := filepath.Join(c.dir, "retrysafe")
		writeProgram(t, self)
		p := newCommand(t, "advise", "--dialect", "mysql", "-f", "-", "--help")
		p.Path, p.Stdin = self, strings.NewReader("SELECT 1")
		p.Env = append(p.Env, "PATH="+c.path)
		var out, errOut strings.Builder
		p.Stdout, p.Stderr = &out, &errOut
		_ = p.Run()
		assert.Equal(t, p.ProcessState.ExitCode(), 3, "%s: exit code (%s)", name, errOut.String())
		assert.Equal(t, out.String(), `args ["--dialect" "mysql" "-f" "-" "--help"], in "SELECT 1"`+"\n", "%s: stdout", name)
		assert.Equal(t, errOut.String(), "said on stderr\n", "%s: stderr", name)
	}
	p := newCommand(t, "advise", "SELECT 1")
	p.Env = append(p.Env, "PATH="+empty)
	out, _ := p.CombinedOutput()
	assert.Equal(t, p.ProcessState.ExitCode(), 1, "exit code without it")
	assert.True(t, strings.Count(string(out), "\n") == 1 && strings.Contains(string(out), "go install github.com/retrysafe/retrysafe/cmd/retrysafe-advise@"), "%s", out)
}

// writeProgram installs the test binary under the name of another program.
func writeProgram(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	assert.NoError(t, err, "executable")
	if os.Link(self, path) == nil {
		return
	}
	from, err := os.Open(self)
	assert.NoError(t, err, "open")
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o700) //nolint:gosec // a program
	assert.NoError(t, err, "create")
	_, err = io.Copy(to, from)
	assert.NoError(t, err, "copy")
	assert.NoError(t, to.Close(), "close")
}
