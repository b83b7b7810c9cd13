package report

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/check"
)

// Style is how [Table] looks.
type Style struct {
	// Width is the number of columns for text. Lines to copy, which are those of curl and
	// addresses, are never broken. Default: no line is broken.
	Width int
	// Color adds the escape sequences of a terminal.
	Color bool
}

// Table writes r for a person in a terminal: one line for each check, then each broken one with the
// requests that reproduce it, then what the undecided ones need, and the score at the end. It
// returns the error of w.
func Table(w io.Writer, r *check.Report, s Style) error {
	t := &tableOf{w: bufio.NewWriter(w), style: s}
	t.writeHead(r)
	t.writeList(r)
	for _, v := range []check.Verdict{check.Broken, check.Noted, check.Undecided} {
		for i := range r.Results {
			if r.Results[i].Verdict == v {
				t.writeDetail(&r.Results[i])
			}
		}
	}
	t.writeSecrets(r)
	t.writeLine("")
	for _, line := range wrapText(headlineOf(r), s.Width) {
		t.writeLine(t.paint(bold, line))
	}
	t.writeText("", Score(r))
	return t.w.Flush()
}

type tableOf struct {
	w     *bufio.Writer
	style Style
}

const (
	bold = "1"
	dim  = "2"
)

var verdictColors = map[check.Verdict]string{
	check.Passed: "32", check.Noted: "36", check.Broken: "31", check.Undecided: "33", check.Skipped: dim,
}

func (t *tableOf) paint(code, s string) string {
	if !t.style.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *tableOf) writeLine(s string) {
	_, _ = t.w.WriteString(s + "\n") // Flush returns the error
}

// writeText writes s in lines of the width, each after the indent.
func (t *tableOf) writeText(indent, s string) {
	width := t.style.Width
	if width > 0 {
		width = max(20, width-len(indent))
	}
	for _, line := range wrapText(plainText(s), width) {
		t.writeLine(indent + line)
	}
}

func (t *tableOf) writeHead(r *check.Report) {
	t.writeLine(t.paint(bold, plainText(r.Target)))
	facts := "Effects: " + effectsText(r)
	if r.Contract != "" {
		facts += ". Contract: " + r.Contract
	}
	t.writeText("", facts+".")
	for _, note := range reportRemarks(r) {
		t.writeText("", note)
	}
	t.writeLine("")
}

// effectsText says how they were counted.
func effectsText(r *check.Report) string {
	if r.Oracle == "" || r.Oracle == "none" {
		return "not counted, so only answers were compared"
	}
	return r.Oracle
}

// writeList writes the line of each check. A title that does not fit is cut, since the details and
// the page of the check have it.
func (t *tableOf) writeList(r *check.Report) {
	ids, titles, labels := 0, 0, 0
	for i := range r.Results {
		one := &r.Results[i]
		ids, titles, labels = max(ids, len(one.ID)), max(titles, len([]rune(one.Title))), max(labels, len(verdictLabel(one)))
	}
	if t.style.Width > 0 {
		const gaps = 2 + 2 + 2 // after the mark, the id and the title
		titles = min(titles, t.style.Width-ids-labels-gaps)
	}
	for i := range r.Results {
		one := &r.Results[i]
		color := verdictColors[one.Verdict]
		line := t.paint(color, verdictMarks[one.Verdict]) + " " + padRight(one.ID, ids) + "  "
		if titles >= 12 {
			line += padRight(cutText(plainText(one.Title), titles), titles) + "  "
		}
		t.writeLine(line + t.paint(color, verdictLabel(one)))
	}
}

// writeDetail writes what was seen, how to see it again, and what to do.
func (t *tableOf) writeDetail(r *check.Result) {
	t.writeLine("")
	t.writeLine(t.paint(verdictColors[r.Verdict], verdictMarks[r.Verdict]+" "+r.ID) + " " + t.paint(dim, verdictLabel(r)))
	t.writeText("  ", asSentence(r.Title))
	if r.Summary != "" {
		t.writeText("  ", "Seen: "+asSentence(r.Summary))
	}
	if r.Verdict == check.Broken && len(r.Exchanges) > 0 {
		t.writeLine("")
		for i := range r.Exchanges {
			t.writeExchange(&r.Exchanges[i])
		}
		t.writeLine("")
	}
	if r.Help != "" {
		name := "Help: "
		if r.Verdict == check.Undecided {
			name = "Needs: "
		}
		t.writeText("  ", name+asSentence(r.Help))
	}
	if r.Page != "" {
		t.writeLine("  " + plainText(r.Page))
	}
}

func (t *tableOf) writeExchange(e *check.Exchange) {
	t.writeLine("  " + t.paint(dim, "# "+plainText(e.Step)+": "+plainText(answerText(e))))
	t.writeLine("  " + oneLine(e.Curl))
}

var variablePattern = regexp.MustCompile(`-H "[^" ]+: \$([A-Z0-9_]+)"`)

// secretVariables returns the variables of the shell that curl lines of r use, sorted.
func secretVariables(r *check.Report) []string {
	var names []string
	for i := range r.Results {
		for _, e := range r.Results[i].Exchanges {
			for _, m := range variablePattern.FindAllStringSubmatch(e.Curl, -1) {
				names = append(names, "$"+m[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secretsNote says which variables to set before the curl lines work, or nothing.
func secretsNote(r *check.Report) string {
	names := secretVariables(r)
	if len(names) == 0 {
		return ""
	}
	return "Credentials are not shown. Set " + strings.Join(names, ", ") + " before you run the curl lines."
}

func (t *tableOf) writeSecrets(r *check.Report) {
	if note := secretsNote(r); note != "" {
		t.writeLine("")
		t.writeText("", note)
	}
}
