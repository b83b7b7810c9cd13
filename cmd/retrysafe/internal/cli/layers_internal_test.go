package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

var (
	namesLayer = regexp.MustCompile(`(?:\bLayer\("|\bLayer: +"|\b(?:derivedL|[lL])ayer += "|tokenLayer +== "|newWork\(e, "|newEngine\(c, ")([a-z-]+)"`)
	ofNginx    = regexp.MustCompile(`part\(namespace\) \.\. "/([a-z]+)/"`)
)

// TestLayersAreThoseOfTheCode: the command line knows all layers that this project's code uses.
func TestLayersAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	root := filepath.Join("..", "..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		code := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "key.lua")
		if d.IsDir() || !code || strings.Contains(path, "storetest") || strings.Contains(path, "statespace") || strings.Contains(path, "idemtest") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range slices.Concat(namesLayer.FindAllStringSubmatch(string(text), -1), ofNginx.FindAllStringSubmatch(string(text), -1)) {
			found[m[1]] = true
		}
		return err
	})
	assert.NoError(t, err, "read the code")
	for _, name := range []string{"limit", "progress", "classic", "lock", "metrics"} {
		// not for records
		assert.True(t, found[name], "%s is in the code", name)
		delete(found, name)
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range found {
			if !yield(name) {
				return
			}
		}
	})
	ours := slices.Sorted(slices.Values(layers))
	assert.Equal(t, strings.Join(names, " "), strings.Join(ours, " "), "the layers in the code")
}

// TestLayersAreThoseOfThePages: docs/formats.md, its twin and the comment of Engine.Layer name the
// same layers, each once.
func TestLayersAreThoseOfThePages(t *testing.T) {
	t.Parallel()
	ours := slices.Sorted(slices.Values(layers))
	part := func(name, begin, end string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", filepath.FromSlash(name)))
		assert.NoError(t, err, "read")
		_, rest, ok := strings.Cut(string(text), begin)
		assert.True(t, ok, "%s has %q", name, begin)
		rest, _, ok = strings.Cut(rest, end)
		assert.True(t, ok, "%s has %q after it", name, end)
		return rest
	}
	for page, header := range map[string]string{
		"docs/formats.md": "| layer | operation | id |\n|---|---|---|\n", "docs/formats.zh-CN.md": "| 层 | 操作 | ID |\n|---|---|---|\n",
	} {
		var named []string
		for row := range strings.Lines(part(page, header, "\n\n")) {
			cells := strings.Split(row, "|")
			for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
				named = append(named, m[1])
			}
		}
		slices.Sort(named)
		assert.Equal(t, named, ours, "the layers of %s", page)
	}
	comment := part("engine.go", "The layers of this project are", ".\nfunc (e *Engine) Layer(")
	words := strings.FieldsFunc(comment, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
	words = slices.DeleteFunc(words, func(word string) bool {
		return slices.Contains([]string{"and", "for", "calls", "what", "it", "keeps", "besides"}, word)
	})
	slices.Sort(words)
	assert.Equal(t, words, ours, "the layers of the comment")
}
