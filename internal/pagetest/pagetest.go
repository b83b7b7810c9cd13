// Package pagetest runs pages of the documentation: it saves their programs, runs their commands,
// and compares the output with the one that the page shows.
package pagetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Step is a block of commands on a page, and the output that the page shows for it.
type Step struct{ Commands, Seen string }

var stepBlock = regexp.MustCompile("(?s)```bash\n(.*?)```(?:\n+```text\n(.*?)```)?")

// Steps returns the steps of a page.
func Steps(page string) (steps []Step) {
	for _, m := range stepBlock.FindAllStringSubmatch(page, -1) {
		steps = append(steps, Step{m[1], m[2]})
	}
	return steps
}

// SeenAs reports whether got is what the page shows, where … stands for any text in a line.
func SeenAs(got, shown string) bool {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(shown), "…", `[^\n]*`) + `$`).MatchString(got)
}

// Mark is what the commands of a page print after each step.
const Mark = "=== end of step\n"

// Script returns the steps as one script, which prints Mark after each.
func Script(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.Commands + "echo " + Mark)
	}
	return b.String()
}

// Play runs the script of a page, and checks the output of each step. It shows the files log of the
// directory of c if something is wrong. What c has started ends with it.
func Play(t *testing.T, c *exec.Cmd, most time.Duration, steps []Step, log string) {
	t.Helper()
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = 5 * time.Second
	assert.NoError(t, c.Start(), "start bash")
	kill := func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	late := time.AfterFunc(most, kill)
	err := c.Wait()
	late.Stop()
	kill()
	var text string
	logs, _ := filepath.Glob(filepath.Join(c.Dir, log))
	for _, name := range logs {
		one, _ := os.ReadFile(name) //nolint:gosec // a file of the test
		text += string(one)
	}
	assert.NoError(t, err, "bash (%s)\n%s\n%s", &out, &errOut, text)
	seen := strings.Split(out.String(), Mark)
	assert.True(t, len(seen) == len(steps)+1, "steps that were run: %d of %d:\n%s\n%s", len(seen)-1, len(steps), &out, &errOut)
	for i, s := range steps {
		assert.True(t, SeenAs(seen[i], s.Seen), "what the page shows:\n%s\nwhat was seen:\n%s\nof:\n%s\nlog:\n%s%s", s.Seen, seen[i], s.Commands, text, &errOut)
	}
}

var (
	programBlock = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")
	fileName     = regexp.MustCompile("`([a-z/]+\\.go)`")
)

// SavePrograms writes the programs of a page into dir, under the names that the page gives them
// just before.
func SavePrograms(t *testing.T, page, dir string) {
	t.Helper()
	end := 0
	for _, m := range programBlock.FindAllStringSubmatchIndex(page, -1) {
		names := fileName.FindAllStringSubmatch(page[end:m[0]], -1)
		end = m[1]
		assert.True(t, len(names) > 0, "the page names the file of each program")
		path := filepath.Join(dir, names[len(names)-1][1])
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700), "a directory")
		assert.NoError(t, os.WriteFile(path, []byte(page[m[2]:m[3]]), 0o600), "a program")
	}
}

// InClone is put before the commands of a page that makes a module: in a directory of
// internal/worktree the module is there, with what it needs.
const InClone = `go() { if [ "$1" != mod ]; then command go "$@"; fi; }
set -e
`

// Read returns the text of a section of a page of docs (see Section), with addresses replaced by
// those of the test.
func Read(t *testing.T, root, page, section string, addresses ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", page)) //nolint:gosec // a test names it
	assert.NoError(t, err, "the page")
	text := Section(string(b), section)
	assert.True(t, text != "", "docs/%s has the section %s", page, section)
	for i := 0; i+1 < len(addresses); i += 2 {
		assert.True(t, strings.Contains(text, addresses[i]), "the page has %s", addresses[i])
	}
	return strings.NewReplacer(addresses...).Replace(text)
}

// Section returns the part of a page below a heading of the second level, up to the next heading of
// that level. Lines of code are no headings.
func Section(page, title string) string {
	var b strings.Builder
	code, inside := false, false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if !code && strings.HasPrefix(line, "## ") {
			inside = strings.TrimSpace(line) == "## "+title
		}
		if inside {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Env returns an environment in which programs use no proxy, have no secret or store of the
// machine's, and belong to the workspace around them.
func Env(env ...string) []string {
	return append(append(os.Environ(), "NO_PROXY=*", "RETRYSAFE_STORE=", "RETRYSAFE_SECRET=", "GOWORK="), env...)
}

// HowTo runs the steps of a page or a section in dir, a directory of internal/worktree, to the
// letter but for the addresses.
func HowTo(t *testing.T, page, dir string, env []string) {
	t.Helper()
	steps := Steps(page)
	assert.True(t, len(steps) > 0, "the page has commands")
	SavePrograms(t, page, dir)
	c := exec.Command("bash", "-c", fmt.Sprint(InClone, Script(steps)))
	c.Dir, c.Env = dir, env
	Play(t, c, 9*time.Minute, steps, "*.log")
}
