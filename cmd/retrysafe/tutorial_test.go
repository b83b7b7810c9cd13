//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
	"github.com/retrysafe/retrysafe/internal/worktree"
)

var pageBlock = regexp.MustCompile("(?s)```(go|bash)\n(.*?)```")

// tutorialScript returns what the page does, as one script: programs are saved as the files that
// the page names, and commands run. After each step it prints mark.
func tutorialScript(page, mark string) string {
	var b strings.Builder
	file := ""
	end := 0
	for _, m := range pageBlock.FindAllStringSubmatchIndex(page, -1) {
		for _, name := range regexp.MustCompile("`(shop/[a-z]+\\.go)`").FindAllStringSubmatch(page[end:m[0]], -1) {
			file = name[1]
		}
		end = m[1]
		text := page[m[4]:m[5]]
		if page[m[2]:m[3]] == "go" {
			b.WriteString("cat >" + file + " <<'END'\n" + text + "END\n")
			continue
		}
		b.WriteString(text + "echo " + mark)
	}
	return b.String()
}

// TestTutorial runs the five steps of docs/tutorial.md from its own text, with every program and
// command, and checks the output that it shows. TestBreakIt runs the rest.
func TestTutorial(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/tutorial.md")
	assert.NoError(t, err, "page")
	five, _, found := strings.Cut(string(text), "\n## "+breakIt+"\n")
	assert.True(t, found, "the page has the section %s", breakIt)
	page := strings.ReplaceAll(five, "localhost:8080", "localhost:"+freePorts(t, 1)[0])
	steps := pagetest.Steps(page)
	assert.True(t, len(steps) >= 7, "steps of the page: %d", len(steps))
	dir := worktree.New(t, filepath.Join("..", ".."))
	assert.NoError(t, os.Mkdir(filepath.Join(dir, "shop"), 0o700), "the directory of the shop")
	c := exec.Command("bash", "-c", tutorialScript(page, pagetest.Mark))
	c.Dir = dir
	c.Env = worktree.Env(dir, "NO_PROXY=*", "RETRYSAFE_STORE=", "RETRYSAFE_SECRET=")
	pagetest.Play(t, c, 9*time.Minute, steps, "shop.log")
}

func TestTutorialScript(t *testing.T) {
	t.Parallel()
	page := "Save `shop/a.go`:\n\n```go\nA\n```\n\n```bash\nrun\n```\n\n```text\nno\n```\n\nChange it:\n```go\nB\n```\n"
	assert.Equal(t, tutorialScript(page, "mark\n"), "cat >shop/a.go <<'END'\nA\nEND\nrun\necho mark\ncat >shop/a.go <<'END'\nB\nEND\n", "script")
}
