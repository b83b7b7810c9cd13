package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/scripts/internal/source"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), ".tree") // a root with a dot counts
	for _, name := range []string{"a.go", "b.md", "b.zh-CN.md", "c.txt", "d/e.go", "d/testdata/f.go", ".git/g.go"} {
		path := filepath.Join(root, name)
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755), "directory")
		assert.NoError(t, os.WriteFile(path, []byte(name), 0o600), "file")
	}
	var found []string
	assert.NoError(t, source.Walk([]string{root}, func(_ string, src []byte) error {
		found = append(found, string(src))
		return nil
	}), "Walk")
	assert.Equal(t, strings.Join(found, " "), "a.go b.md d/e.go", "the files")
	assert.True(t, source.Walk([]string{filepath.Join(root, "none")}, nil) != nil, "Walk of a root that is missing")
}

func TestScan(t *testing.T) {
	t.Parallel()
	const text = "package a // one\n\nvar a = \"`// no\" // two\n\nvar b = `// no\n// no\n` // three\n\n// four\n// five\n/* six\nseven */\nvar c = '`' // eight\n"
	comments, raw := source.Scan([]byte(text))
	lines := strings.Split(text, "\n")
	var got []string
	for _, c := range comments {
		first, _, _ := strings.Cut(c.Text, "\n")
		assert.True(t, strings.HasSuffix(lines[c.Line-1], first) && strings.Index(lines[c.Line-1], first) == c.Column, "the place of %+v", c)
		word := strings.Fields(first)[1]
		got = append(got, word)
		assert.Equal(t, c.Next, word == "five" || word == "six", "whether a comment is before %s", word)
	}
	assert.Equal(t, strings.Join(got, " "), "one two three four five six eight", "the comments")
	for i, inside := range raw {
		assert.Equal(t, inside, i == 5 || i == 6, "whether line %d begins inside a raw string", i+1)
	}
	assert.Equal(t, len(raw), len(lines), "lines")
}
