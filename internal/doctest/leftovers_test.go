package doctest_test

import (
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
	for _, path := range left {
		c := exec.CommandContext(t.Context(), "git", "check-ignore", "--quiet", path)
		c.Dir = filepath.Join("..", "..")
		assert.NoError(t, c.Run(), "%s is left by an example; add it to .gitignore", path)
	}
}
