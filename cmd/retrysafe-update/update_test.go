package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// newShop returns a folder with a program that was written for v0.1.0, and requires it.
func newShop(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	assert.NoError(t, os.CopyFS(dir, os.DirFS("testdata/before")), "copy")
	old, err := filepath.Abs("testdata/old")
	assert.NoError(t, err, "path")
	requireModule(t, dir, old)
	return dir
}

// requireModule writes a go.mod that takes retrysafe from a folder.
func requireModule(t *testing.T, dir, from string) {
	t.Helper()
	text := "module example.com/shop\n\ngo 1.26\n\nrequire github.com/retrysafe/retrysafe v0.1.0\n\nreplace github.com/retrysafe/retrysafe => " + from + "\n"
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600), "go.mod")
}

func vetModule(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "go vet: %s", out)
}

// TestUpdate: a program that was written for v0.1.0 compiles with this tree after it, and looks as
// if it had been written so.
func TestUpdate(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	dir := newShop(t)
	vetModule(t, dir)
	before, err := os.ReadFile(filepath.Join(dir, "shop.go"))
	assert.NoError(t, err, "read")

	changed, err := updatePackages(dir, []string{"./..."}, true)
	assert.NoError(t, err, "update without changes")
	assert.Equal(t, len(changed), 1, "files that would change")
	same, err := os.ReadFile(filepath.Join(dir, "shop.go"))
	assert.True(t, err == nil && string(same) == string(before), "it changes nothing: %v", err)

	_, err = updatePackages(dir, []string{"./..."}, false)
	assert.NoError(t, err, "update")
	after, err := os.ReadFile(filepath.Join(dir, "shop.go"))
	assert.NoError(t, err, "read")
	assert.Golden(t, "testdata/after.golden", string(after))

	root, err := filepath.Abs("../..")
	assert.NoError(t, err, "path")
	requireModule(t, dir, root)
	vetModule(t, dir)
	changed, err = updatePackages(dir, []string{"./..."}, false)
	assert.True(t, err == nil && len(changed) == 0, "a second time: %v, %v", changed, err)
}

// TestBrokenProgram: what does not compile is left as it is, and a folder without packages is an
// error.
func TestBrokenProgram(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	dir := newShop(t)
	broken := "package shop\n\nimport \"github.com/retrysafe/retrysafe/httpidem\"\n\nvar o = httpidem.Options{MaxBody: unknown}\n"
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "broken.go"), []byte(broken), 0o600), "write")
	_, err := updatePackages(dir, []string{"./..."}, false)
	assert.NoError(t, err, "update")
	text, err := os.ReadFile(filepath.Join(dir, "broken.go"))
	assert.True(t, err == nil && strings.Contains(string(text), "Limit: httpidem.LimitOptions{Body: unknown}"), "broken.go: %v\n%s", err, text)
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "broken.go"), []byte("package"), 0o600), "write")
	_, err = updatePackages(dir, []string{"./..."}, false)
	assert.True(t, err != nil, "a file that cannot be parsed")
}

// TestFolders: packages that a program imports are found where the record of the exported names
// says that they have gone.
func TestFolders(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../scripts/api/moved.txt")
	assert.NoError(t, err, "read")
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[from] = to
	}
	assert.Equal(t, folders, want, "folders")
}
