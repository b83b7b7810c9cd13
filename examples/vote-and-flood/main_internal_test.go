package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// numberIn returns the number that re finds in text, or 0.
func numberIn(text, re string) int {
	found := regexp.MustCompile(re).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// countVotes returns how many votes the page shows.
func countVotes(t *testing.T, p *exampletest.Program) int {
	t.Helper()
	a := p.Do(t, "GET", "/", "", "Authorization: Basic YW5uOg==")
	assert.Equal(t, a.Status, 200, "status of the page; %s", a.Body)
	return numberIn(a.Body, `votes for tea: (\d+)`) + numberIn(a.Body, `votes for coffee: (\d+)`)
}

// TestFlood: however many votes 30 voters send, also over the death of the process, 30 count. An
// address that sends too many requests is refused, and so is a voter who invents polls.
func TestFlood(t *testing.T) {
	t.Parallel()
	redis, program := servertest.StartRedis(t), exampletest.Build(t, "./flood")
	flood := func(p *exampletest.Program, args ...string) string {
		out, err := exec.CommandContext(t.Context(), program, append([]string{"-url", "http://" + p.Addr + "/votes"}, args...)...).CombinedOutput()
		assert.NoError(t, err, "flood: %s", out)
		return string(out)
	}
	p := exampletest.Start(t, "-redis", "redis://"+redis.Addr, "-rate", "100000")
	assert.Equal(t, p.Do(t, "GET", "/", "").Status, 401, "the page without a name")

	said := ""
	for n := 0; !strings.Contains(said, "no answer"); n++ {
		if n > 0 { // the flood was over before the process was killed
			p.Restart(t)
		}
		during := make(chan string, 1)
		go func() {
			out, _ := exec.CommandContext(t.Context(), program, "-url", "http://"+p.Addr+"/votes", "-voters", "30", "-requests", "50000").CombinedOutput()
			during <- string(out)
		}()
		exampletest.Await(t, "some votes", func() bool { return countVotes(t, p) > 3 })
		p.Kill()
		said = <-during
		assert.True(t, n < 10, "the flood over the death of the process: %s", said)
	}
	p.Restart(t)
	var out string
	exampletest.Await(t, "30 votes, after the leases of the dead process", func() bool {
		// for both sides: the other one is refused even before the vote is cast
		out = flood(p, "-voters", "30", "-requests", "60")
		return numberIn(out, `(\d+) 201 replayed`) == 30 && numberIn(out, `(\d+) 422 payload-mismatch`) == 30
	})
	out = flood(p, "-voters", "30", "-requests", "600")
	assert.True(t, numberIn(out, `(\d+) 201 replayed`) == 300 && numberIn(out, `(\d+) 422 payload-mismatch`) == 300, "answers to the old votes: %s", out)
	assert.Equal(t, countVotes(t, p), 30, "votes of 30 voters")
	assert.Contains(t, p.Do(t, "GET", "/", "", "Authorization: Basic YW5uOg==").Body, "<li>422: ", "what the page shows")

	out = flood(p, "-voters", "1", "-requests", "20", "-poll", "invented-%d")
	// The voter has a vote, and room for nine more records. A vote that was counted, and whose
	// process died before it had the record or gave it back, takes room too.
	begun := numberIn(out, `(\d+) 400`)
	assert.True(t, begun > 0 && begun <= 9 && numberIn(out, `(\d+) 429 too-many-keys`) == 20-begun, "answers to a voter who has voted once: %s", out)
	p.Kill()
	p.Args("-rate", "0.001")
	p.Restart(t)
	out = flood(p, "-voters", "30", "-requests", "60")
	assert.True(t, numberIn(out, `(\d+) 429 too-many-requests`) >= 59, "refusals to the address: %s", out)
	assert.Equal(t, countVotes(t, p), 30, "votes in the end")
	p.Stop(t)
}
