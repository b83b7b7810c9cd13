// Package worktree makes directories in which programs of the documentation are built, as in a
// clone of this repository.
package worktree

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

var used = regexp.MustCompile(`(?m)^\t\.(/\S+)?$`)

// New returns a new directory that is a module in a workspace with the modules of the tree at root.
// The go command changes nothing in the tree.
func New(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(root)
	assert.NoError(t, err, "the tree")
	work, err := os.ReadFile(filepath.Join(root, "go.work")) //nolint:gosec // a test names the tree
	assert.NoError(t, err, "go.work")
	moved := used.ReplaceAllString(string(work), "\t"+root+"$1")
	moved = strings.ReplaceAll(moved, "=> ./", "=> "+root+"/")
	sums, err := os.ReadFile(filepath.Join(root, "go.work.sum")) //nolint:gosec // a test names the tree
	assert.NoError(t, err, "go.work.sum")
	for name, content := range map[string]string{
		"go.work": strings.Replace(moved, "use (\n", "use (\n\t.\n", 1), "go.work.sum": string(sums),
		"go.mod": "module example.com/clone\n\ngo 1.26.0\n",
	} {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600), "write")
	}
	return dir
}

// Env returns the environment of commands in dir, a directory of New, with more. The go command
// finds the workspace of dir even where tests run with the workspace of the tree.
func Env(dir string, more ...string) []string {
	return append(append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work")), more...)
}
