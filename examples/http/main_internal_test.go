package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "EXAMPLE_HTTP"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs the program with its database in dir, and returns when it answers. kill ends it.
func start(t *testing.T, dir, address string) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	assert.NoError(t, err, "executable")
	c := exec.CommandContext(t.Context(), self, "-listen", address)
	c.Dir, c.Env, c.WaitDelay = dir, append(os.Environ(), asProgram+"=1"), 5*time.Second
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	assert.NoError(t, c.Start(), "start")
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if out, err := shell(t, "curl -s -o /dev/null --retry 30 --retry-connrefused "+address); err != nil {
		kill()
		t.Fatalf("the program does not answer: %v, %s; it said %s", err, out, &said)
	}
	return kill
}

func shell(t *testing.T, command string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Env = append(os.Environ(), "NO_PROXY=*")
	out, err := c.Output()
	return string(out), err
}

var (
	program    = regexp.MustCompile("(?s)```go\n(.*?)```")
	transcript = regexp.MustCompile("(?s)```console\n(\\$ curl -i .*?)```")
	// What the page leaves out of curl's output.
	unshown = regexp.MustCompile(`(?m)^((Cache-Control|Content-Length|Content-Type|Date|Link): .*)?\r?\n`)
)

// block returns what the one group of re matches in a page.
func block(t *testing.T, page string, re *regexp.Regexp) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	assert.NoError(t, err, "page")
	found := re.FindAllStringSubmatch(string(text), -1)
	assert.Equal(t, len(found), 1, "blocks like %v in %s", re, page)
	return found[0][1]
}

// TestReadme: both pages show a part of this program byte for byte, and what curl gets from it.
func TestReadme(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("main.go")
	assert.NoError(t, err, "main.go")
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			assert.Contains(t, string(code), block(t, page, program), "a part of main.go")
			play(t, block(t, page, transcript))
		})
	}
}

// play runs the commands of a transcript one after the other, and checks their output. Then it
// kills the program, and checks that a new process still knows the last payment.
func play(t *testing.T, shown string) {
	t.Helper()
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	dir, address := t.TempDir(), "localhost:"+port
	kill := start(t, dir, address)
	defer func() { kill() }()
	var seen strings.Builder
	commands := 0
	for line := range strings.Lines(shown) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		commands++
		out, err := shell(t, strings.ReplaceAll(command, "localhost:8080", address))
		assert.NoError(t, err, "%s", command)
		seen.WriteString(line + unshown.ReplaceAllString(out, ""))
	}
	assert.True(t, commands >= 4, "commands: %d", commands)
	got := strings.ReplaceAll(seen.String(), "\r", "")
	assert.True(t, seenAs(got, shown), "the page shows\n%s\nand this was seen:\n%s", shown, got)

	first, _, _ := strings.Cut(strings.TrimPrefix(shown, "$ "), "\n")
	kill()
	kill = start(t, dir, address)
	out, err := shell(t, strings.ReplaceAll(first, "localhost:8080", address))
	assert.NoError(t, err, "%s", first)
	assert.Contains(t, out, "Idempotency-Replayed: true", "the answer of a new process")
}

// seenAs reports whether got is what the page shows, where … stands for any text in a line.
func seenAs(got, shown string) bool {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(shown), "…", `[^\n]*`) + `$`).MatchString(got)
}

func TestSeenAs(t *testing.T) {
	t.Parallel()
	assert.True(t, seenAs("{1,\"x\"}\n201\n", "{…\"x\"}\n201\n"), "what is shown")
	for _, other := range []string{"{1,\"y\"}\n201\n", "{1,\"x\"}\n", "{\n\"x\"}\n201\n", ""} {
		assert.True(t, !seenAs(other, "{…\"x\"}\n201\n"), "something else: %q", other)
	}
	assert.Equal(t, unshown.ReplaceAllString("HTTP/1.1 200 OK\r\nDate: x\r\nX: y\r\n\r\nbody\n", ""), "HTTP/1.1 200 OK\r\nX: y\r\nbody\n", "what is left out")
}
