package doctest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

var (
	// The code of a mistake, next to the test that shows it.
	mistake = regexp.MustCompile(`(?s)// snippet: ([a-z0-9-]+)\n(.*?)\n// end\n`)
	// The place on a page that shows it.
	place    = regexp.MustCompile("(?s)<!-- snippet: ([a-z0-9-]+) -->\n```go\n.*?```\n")
	showsOne = regexp.MustCompile(`func (TestPitfall[A-Za-z0-9]+)\(`)
)

// TestPitfalls: the pages show the code of every mistake, as in the tests, and name the test of
// each, in the same order. UPDATE=1 writes the code into the pages.
func TestPitfalls(t *testing.T) {
	t.Parallel()
	mistakes, tests := map[string]string{}, []string{}
	for path, text := range files(t, "_test.go") {
		if !strings.HasPrefix(path, "test/servers/guards/pitfalls_") {
			continue
		}
		for _, m := range mistake.FindAllStringSubmatch(text, -1) {
			assert.Equal(t, mistakes[m[1]], "", "another mistake with the name %s", m[1])
			mistakes[m[1]] = strings.TrimSpace(m[2])
		}
		for _, m := range showsOne.FindAllStringSubmatch(text, -1) {
			tests = append(tests, m[1])
		}
	}
	assert.True(t, len(mistakes) > 20 && len(tests) >= len(mistakes), "mistakes and tests: %d, %d", len(mistakes), len(tests))

	var order []string
	for _, page := range []string{"docs/pitfalls.md", "docs/pitfalls.zh-CN.md"} {
		path := filepath.Join(root, page)
		b, err := os.ReadFile(path)
		assert.NoError(t, err, "read")
		text := string(b)
		var names []string
		want := place.ReplaceAllStringFunc(text, func(s string) string {
			name := place.FindStringSubmatch(s)[1]
			names = append(names, name)
			assert.NotEqual(t, mistakes[name], "", "%s shows %s, which no test has", page, name)
			return fmt.Sprintf("<!-- snippet: %s -->\n```go\n%s\n```\n", name, mistakes[name])
		})
		if os.Getenv("UPDATE") != "" && want != text {
			assert.NoError(t, os.WriteFile(path, []byte(want), 0o644), "write")
			text = want
		}
		assert.Equal(t, text, want, "%s shows the code of the tests; write it with UPDATE=1 go test -run TestPitfalls ./internal/doctest", page)
		assert.Equal(t, len(names), len(mistakes), "mistakes that %s shows", page)
		for _, name := range tests {
			assert.Contains(t, text, "`"+name+"`", "%s names each test", page)
		}
		if order == nil {
			order = names
		}
		assert.Equal(t, names, order, "the order of %s", page)
	}
}

// packages maps the names on the pages to directories.
var packages = map[string]string{
	"retrysafe": ".", "Policy": ".", "guard": "guard", "httpidem": "httpidem", "token": "httpidem/token", "classic": "httpidem/token/classic",
	"dbtx": "stores/sqlstore/dbtx", "Store": "stores/sqlstore", "zklock": "adapters/zklock",
}

// declared matches what a line of Go declares, or a field of a struct.
var declared = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |\t|const |var )([A-Z][A-Za-z]*)`)

var exported = regexp.MustCompile("`([a-zA-Z]+)\\.([A-Z][A-Za-z]+)`")

// TestPitfallsNameWhatIsThere: the packages export everything that the pages recommend.
func TestPitfallsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for path, text := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			named[filepath.Dir(path)+" "+m[1]] = true
		}
	}
	there := func(dir, name string) bool { return named[dir+" "+name] }
	all := files(t, ".md")
	for _, page := range []string{"docs/pitfalls.md", "docs/pitfalls.zh-CN.md"} {
		found := exported.FindAllStringSubmatch(all[page], -1)
		assert.True(t, len(found) > 20, "names in %s: %d", page, len(found))
		for _, m := range found {
			dir, ok := packages[m[1]]
			assert.True(t, ok && there(dir, m[2]), "%s names %s.%s, which is not there", page, m[1], m[2])
		}
	}
	assert.True(t, !there(".", "NoSuchThing"), "and the check can fail")
}
