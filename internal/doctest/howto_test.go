package doctest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/anchor"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
	"github.com/retrysafe/retrysafe/internal/worktree"
)

// TestProgramsOfPages compiles every whole program of docs: each code block that begins with
// package main. README and the tutorial have tests that run theirs.
func TestProgramsOfPages(t *testing.T) {
	t.Parallel()
	tree := worktree.New(t, root)
	programs := 0
	for page, text := range files(t, ".md") {
		if !strings.HasPrefix(page, "docs/") || page == "docs/tutorial.md" || strings.HasSuffix(page, ".zh-CN.md") {
			continue // a twin has the same code: scripts/translations
		}
		for _, s := range snippet.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(s[1], "package main\n") {
				continue
			}
			programs++
			t.Run(page, func(t *testing.T) {
				t.Parallel()
				dir, err := os.MkdirTemp(tree, "page")
				assert.NoError(t, err, "directory")
				assert.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(s[1]), 0o600), "write")
				// It compiles and does not link. go vet analyses every package below, too; make
				// verify has it.
				command := []string{"list", "-export", "."}
				if os.Getenv("RETRYSAFE_PAGES") == "vet" {
					command = []string{"vet", "."}
				}
				c := exec.CommandContext(t.Context(), "go", command...) //nolint:gosec // as above
				c.Dir = dir
				c.Env = worktree.Env(tree)
				out, err := c.CombinedOutput()
				assert.NoError(t, err, "%s has a program that does not compile:\n%s", page, out)
			})
		}
	}
	assert.True(t, programs >= 12, "programs in docs: %d", programs)
}

var stepByStep = regexp.MustCompile(`(?m)^## (Step by step: .*)$`)

// TestHowTo: each section that leads through one task is short, has a program, links to the
// reference, and stands on the map.
func TestHowTo(t *testing.T) {
	t.Parallel()
	docs := files(t, ".md")
	sections := 0
	for page, text := range docs {
		name, ok := strings.CutPrefix(page, "docs/")
		if !ok {
			continue
		}
		for _, m := range stepByStep.FindAllStringSubmatch(text, -1) {
			sections++
			section := pagetest.Section(text, m[1])
			lines := strings.Count(section, "\n")
			assert.True(t, lines <= 150, "%s, %s has %d lines; 150 are enough for one task and its commands", page, m[1], lines)
			program := strings.Contains(section, "```go\npackage main\n") || strings.Contains(section, "```python\n")
			assert.True(t, program, "%s, %s: a program", page, m[1])
			assert.Contains(t, section, "\nReference: [", "%s, %s: links to the reference", page, m[1])
			assert.Contains(t, docs["docs/README.md"], "("+name+"#"+anchor.Of(m[1])+")", "the map")
		}
	}
	assert.True(t, sections >= 12, "sections: %d", sections)
}
