package doctest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

var (
	database = regexp.MustCompile(`"file:(\w+\.db)\?`)
	python   = regexp.MustCompile(`DATABASE = "(\w+\.db)"`)
)

// TestExamplesLeaveNoChange: git ignores every file that an example leaves when it runs as its page
// says.
func TestExamplesLeaveNoChange(t *testing.T) {
	t.Parallel()
	left := []string{"keys/stripe.secret", "dump.rdb", "appendonlydir/appendonly.aof.manifest", "examples/gateway-java/orders.txt"}
	add := func(named *regexp.Regexp, extension string) {
		before := len(left)
		for path, text := range files(t, extension) {
			example := strings.HasPrefix(filepath.ToSlash(path), "examples/") && !strings.HasSuffix(path, "_test.go")
			if m := named.FindStringSubmatch(text); m != nil && example {
				for _, more := range []string{"", "-shm", "-wal", "-journal"} {
					left = append(left, m[1]+more, filepath.Join(filepath.Dir(path), m[1]+more))
				}
			}
		}
		assert.True(t, len(left) > before, "databases in examples/*%s: none is found", extension)
	}
	add(database, ".go")
	add(python, ".py")
	for path, text := range files(t, ".go") { // go build in the folder of a program
		if dir := filepath.Dir(path); strings.HasSuffix(path, "main.go") && strings.Contains(text, "package main\n") && dir != "." {
			left = append(left, filepath.Join(dir, filepath.Base(dir)))
		}
	}
	// A repository of its own: the tree may have none, or one that git does not trust.
	dir := t.TempDir()
	rules, err := os.ReadFile(filepath.Join("..", "..", ".gitignore"))
	assert.NoError(t, err, "the rules")
	assert.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), rules, 0o600), "the rules")
	git := func(args ...string) ([]byte, error) {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = dir
		return c.CombinedOutput()
	}
	out, err := git("init", "--quiet")
	assert.NoError(t, err, "git init: %s", out)
	for _, path := range left {
		_, err := git("check-ignore", "--quiet", path)
		assert.NoError(t, err, "%s is left by an example or by go build; add it to .gitignore", path)
	}
}
