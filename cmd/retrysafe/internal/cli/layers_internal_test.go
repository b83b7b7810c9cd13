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
	for _, name := range []string{"limit", "progress", "classic", "lock"} { // not for records
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
