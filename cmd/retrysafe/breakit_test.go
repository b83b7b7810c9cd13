//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// step is a block of commands on a page, and the output that the page shows for it.
type step struct{ commands, seen string }

var stepBlock = regexp.MustCompile("(?s)```bash\n(.*?)```(?:\n+```text\n(.*?)```)?")

func stepsOf(page string) (steps []step) {
	for _, m := range stepBlock.FindAllStringSubmatch(page, -1) {
		steps = append(steps, step{m[1], m[2]})
	}
	return steps
}

// seenAs reports whether got is what the page shows, where … stands for any text in a line.
func seenAs(got, shown string) bool {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(shown), "…", `[^\n]*`) + `$`).MatchString(got)
}

// TestBreakIt runs docs/break-it.md with the real command and checks its output: a gateway and a
// service are killed, an answer comes late, a store is locked, writes fail, a reload is invalid,
// and fifty requests come at once.
func TestBreakIt(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/break-it.md")
	assert.NoError(t, err, "page")
	page := string(text)
	ports := freePorts(t, 3)
	page = strings.NewReplacer("7001", ports[0], "7002", ports[1], "7003", ports[2]).Replace(page)
	steps := stepsOf(page)
	assert.True(t, len(steps) >= 15, "steps of the page: %d", len(steps))
	playSteps(t, t.TempDir(), 6*time.Minute, steps)
}

// playSteps runs the steps of a page in dir, with the real command and a sqlite3 (see TestMain),
// and checks their output. A gateway of the page has its log in gateway.log.
func playSteps(t *testing.T, dir string, most time.Duration, steps []step) {
	t.Helper()
	const mark = "=== end of step\n"
	var script strings.Builder
	for _, s := range steps {
		script.WriteString(s.commands + "echo " + mark)
	}
	self, err := os.Executable()
	assert.NoError(t, err, "executable")
	bin := t.TempDir()
	for _, name := range []string{"retrysafe", "sqlite3"} {
		assert.NoError(t, os.Symlink(self, filepath.Join(bin, name)), "link")
	}
	c := exec.Command("bash", "-c", script.String())
	c.Env = append(os.Environ(), asCommand+"=1", "NO_PROXY=*", "PATH="+bin+":"+os.Getenv("PATH"))
	c.Dir = dir
	playPage(t, c, most, steps, mark, "gateway.log")
}

// playPage runs the commands of a page, which print mark after each step, and checks the output of
// each step. It shows the log, a file in the directory of c, if something is wrong. What c has
// started ends with it.
func playPage(t *testing.T, c *exec.Cmd, most time.Duration, steps []step, mark, log string) {
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
	text, _ := os.ReadFile(filepath.Join(c.Dir, log))
	assert.NoError(t, err, "bash (%s)\n%s\n%s", &out, &errOut, text)
	seen := strings.Split(out.String(), mark)
	for i, s := range steps {
		assert.True(t, seenAs(seen[i], s.seen), "what the page shows:\n%s\nwhat was seen:\n%s\nof:\n%s\nlog:\n%s%s", s.seen, seen[i], s.commands, text, &errOut)
	}
}

func TestStepsOfAPage(t *testing.T) {
	t.Parallel()
	steps := stepsOf("```bash\na\nb\n```\n\nwords\n\n```text\nno output of it\n```\n\n```sh\nnot run\n```\n```bash\nc\n```\n\n```text\n{…\"x\"}\n201\n```\n")
	assert.Equal(t, steps, []step{{"a\nb\n", ""}, {"c\n", "{…\"x\"}\n201\n"}}, "steps")
	assert.True(t, seenAs("{1,\"x\"}\n201\n", steps[1].seen), "what is shown")
	for _, other := range []string{"{1,\"y\"}\n201\n", "{1,\"x\"}\n", "{1,\"x\"}\n201\n\n", "{\n\"x\"}\n201\n", ""} {
		assert.True(t, !seenAs(other, steps[1].seen), "something else: %q", other)
	}
}

func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		port, err := freeport.Get()
		assert.NoError(t, err, "a free port")
		ports = append(ports, port)
	}
	return ports
}
