//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/pagetest"
)

// breakIt is the section after the five steps, with programs of its own.
const breakIt = "Break it"

// TestBreakIt runs the section of docs/tutorial.md that breaks a gateway and a shop, with the real
// command and longer times, and checks its output: both are killed, an answer comes late, a store
// is locked, writes fail, a reload is invalid, and fifty requests come at once.
func TestBreakIt(t *testing.T) {
	t.Parallel()
	page := pagetest.Read(t, "../..", "tutorial.md", breakIt)
	ports := freePorts(t, 3)
	page = strings.NewReplacer("7001", ports[0], "7002", ports[1], "7003", ports[2]).Replace(lengthenTimes(t, page))
	steps := pagetest.Steps(page)
	assert.True(t, len(steps) >= 15, "steps of the page: %d", len(steps))
	playSteps(t, t.TempDir(), 20*time.Minute, steps)
}

// pageTimes are the times of the page: pauses, leases, limits, and how long the shop takes in
// milliseconds.
var pageTimes = regexp.MustCompile(`(\bsleep |\blease: |\btimeout_answer: |"wait |\bpay \w+ )(\d+)(s?\b)`)

// lengthenTimes makes all times of the page five times as long: on a busy machine a command can
// take as long as a lease of the page.
func lengthenTimes(t *testing.T, page string) string {
	t.Helper()
	assert.Equal(t, len(pageTimes.FindAllString(page, -1)), 17, "times in the page that the pattern finds")
	return pageTimes.ReplaceAllStringFunc(page, func(text string) string {
		m := pageTimes.FindStringSubmatch(text)
		n, _ := strconv.Atoi(m[2])
		return m[1] + strconv.Itoa(5*n) + m[3]
	})
}

// playSteps runs the steps of a page in dir, with the real command and a sqlite3 (see TestMain),
// and checks their output. A gateway of the page has its log in gateway.log.
func playSteps(t *testing.T, dir string, most time.Duration, steps []pagetest.Step) {
	t.Helper()
	self, err := os.Executable()
	assert.NoError(t, err, "executable")
	bin := t.TempDir()
	for _, name := range []string{"retrysafe", "sqlite3"} {
		assert.NoError(t, os.Symlink(self, filepath.Join(bin, name)), "link")
	}
	c := exec.Command("bash", "-c", pagetest.Script(steps))
	c.Env = append(os.Environ(), asCommand+"=1", "NO_PROXY=*", "PATH="+bin+":"+os.Getenv("PATH"))
	c.Dir = dir
	pagetest.Play(t, c, most, steps, "gateway.log")
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
