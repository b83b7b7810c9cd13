package report_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func tableOf(t *testing.T, r *check.Report, s report.Style) string {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, report.Table(&b, r, s), "table")
	return b.String()
}

func TestTable(t *testing.T) {
	t.Parallel()
	assertGolden(t, "table.txt", tableOf(t, sampleReport(), report.Style{Width: 100}))
	assertGolden(t, "table-narrow.txt", tableOf(t, sampleReport(), report.Style{Width: 60}))
	assertGolden(t, "table-color.txt", tableOf(t, sampleReport(), report.Style{Color: true}))
}

// TestTableKeepsTheWidth: only lines to copy are longer, and those are never broken.
func TestTableKeepsTheWidth(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 60, 80, 120} {
		text := tableOf(t, sampleReport(), report.Style{Width: width})
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			copied := strings.HasPrefix(line, "  curl ") || strings.HasPrefix(line, "  https://") || strings.HasPrefix(line, "  # ")
			assert.True(t, copied || utf8.RuneCountInString(line) <= max(width, 45), "width %d: %d: %s", width, utf8.RuneCountInString(line), line)
		}
		assert.Contains(t, text, "\n  "+curlLine(key)+"\n", "the line of curl")
	}
}

func TestTableWithoutColorHasNoEscapes(t *testing.T) {
	t.Parallel()
	assert.True(t, !strings.Contains(tableOf(t, sampleReport(), report.Style{Width: 80}), "\x1b"), "no escape sequences")
	assert.Contains(t, tableOf(t, sampleReport(), report.Style{Color: true}), "\x1b[31m✗\x1b[0m", "colour")
}

// TestTableOfHostileAnswers: what an API sends cannot control the terminal.
func TestTableOfHostileAnswers(t *testing.T) {
	t.Parallel()
	text := tableOf(t, hostileReport(), report.Style{Width: 80})
	for _, r := range text {
		assert.True(t, r == '\n' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) && r != '\u202e', "character %q in the table", r)
	}
}

// TestCurlLinesRun: a shell passes the same bytes as without the change, and there is no line
// break.
func TestCurlLinesRun(t *testing.T) {
	t.Parallel()
	body := "{\n\t\"a\": \"it's\",\r\n \"\x1b[31m\": \"\u202e\", \"\xff\": \"ü\"\n}\n"
	r := sampleReport()
	quoted := "'" + strings.ReplaceAll(body, "'", `'\''`) + "'"
	r.Results[1].Exchanges = []check.Exchange{{Step: "it", Curl: "curl -i -X POST http://localhost/ --data-binary " + quoted}}
	line := ""
	for l := range strings.Lines(tableOf(t, r, report.Style{Width: 40})) {
		if strings.HasPrefix(l, "  curl ") && strings.Contains(l, "--data-binary") && !strings.Contains(l, "teapot") {
			line = strings.TrimSpace(l)
		}
	}
	assert.NotEqual(t, line, "", "the line of curl")
	script := strings.Replace(line, "curl -i -X POST http://localhost/ --data-binary", `printf %s`, 1)
	out, err := exec.CommandContext(t.Context(), "bash", "-c", script).Output()
	assert.NoError(t, err, "bash")
	assert.Equal(t, string(out), body, "what the shell passes")
}

func TestScore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		results []check.Result
		want    string
		end     string
	}{
		{nil, "0 of 0 passed; 312 requests, 4.1 s", "Nothing was checked."},
		{[]check.Result{{Verdict: check.Passed}}, "1 of 1 passed; 312 requests, 4.1 s", "Safe to retry: no check found a fault."},
		{[]check.Result{{Verdict: check.Passed}, {Verdict: check.Undecided}}, "1 of 2 passed, 1 undecided; 312 requests, 4.1 s", "No fault found, but 1 check could not be decided."},
		{[]check.Result{{Verdict: check.Broken, Severity: check.Minor}, {Verdict: check.Passed}}, "1 of 2 passed, 1 broken; 312 requests, 4.1 s", "Safe to retry, but clients get less than they could use."},
		{[]check.Result{{Verdict: check.Broken, Severity: check.Serious}, {Verdict: check.Undecided}}, "0 of 2 passed, 1 broken, 1 undecided; 312 requests, 4.1 s", "A retry can get an answer that is not true."},
		{sampleReport().Results, "1 of 5 passed, 2 broken (1 critical), 1 noted, 1 undecided, 1 skipped; 312 requests, 4.1 s", "Not safe to retry"},
	} {
		r := sampleReport()
		r.Results = c.results
		assert.Equal(t, report.Score(r), c.want, "score")
		assert.Contains(t, tableOf(t, r, report.Style{}), "\n"+c.end, "the last lines")
	}
	r := sampleReport()
	r.Requests, r.Took = 1, 83*time.Second
	assert.Contains(t, report.Score(r), "; 1 request, 83 s", "one request")
	r.Took = 12 * time.Millisecond
	assert.Contains(t, report.Score(r), ", 12 ms", "a short time")
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestErrorsOfTheWriter: no form is taken for written that was not.
func TestErrorsOfTheWriter(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"table": report.Table(full{}, sampleReport(), report.Style{}), "html": report.HTML(full{}, sampleReport()), "json": report.JSON(full{}, sampleReport()),
		"junit": report.JUnit(full{}, sampleReport()), "sarif": report.SARIF(full{}, sampleReport()), "sarif in": report.SARIFIn("a.yaml")(full{}, sampleReport()),
	} {
		assert.ErrorIs(t, err, errFull, "%s", name)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	c := &check.Check{ID: "concurrent-duplicates"}
	done := &check.Result{ID: c.ID, Verdict: check.Broken, Severity: check.Critical, Took: 1200 * time.Millisecond}
	events := []check.Event{{Index: 1, Total: 2, Check: c}, {Index: 1, Total: 2, Check: c, Result: done}, {Index: 2, Total: 2, Check: c}, {Index: 2, Total: 2, Check: c, Result: done}}
	write := func(show func(io.Writer) func(check.Event), events ...check.Event) string {
		var b bytes.Buffer
		progress := show(&b)
		for _, e := range events {
			progress(e)
		}
		return b.String()
	}
	const erase = "\r\x1b[K"
	assert.Equal(t, write(report.TerminalProgress, events...), erase+"1/2 concurrent-duplicates …"+erase+"2/2 concurrent-duplicates …"+erase, "on a terminal")
	assert.Equal(t, write(report.TerminalProgress, events[0], check.Event{}), erase+"1/2 concurrent-duplicates …"+erase, "an examination that ends early")
	assert.Equal(t, write(report.Progress, append(events, check.Event{})...), "1/2 concurrent-duplicates broken (critical), 1.2 s\n2/2 concurrent-duplicates broken (critical), 1.2 s\n", "in a log")
}
