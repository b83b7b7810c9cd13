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
	t := &table{w: bufio.NewWriter(w), style: s}
	t.head(r)
	t.list(r)
	for _, v := range []check.Verdict{check.Broken, check.Noted, check.Undecided} {
		for i := range r.Results {
			if r.Results[i].Verdict == v {
				t.detail(&r.Results[i])
			}
		}
	}
	t.secrets(r)
	t.line("")
	for _, line := range wrap(headline(r), s.Width) {
		t.line(t.paint(bold, line))
	}
	t.text("", Score(r))
	return t.w.Flush()
}

type table struct {
	w     *bufio.Writer
	style Style
}

const (
	bold = "1"
	dim  = "2"
)

var colors = map[check.Verdict]string{
	check.Passed: "32", check.Noted: "36", check.Broken: "31", check.Undecided: "33", check.Skipped: dim,
}

func (t *table) paint(code, s string) string {
	if !t.style.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *table) line(s string) {
	_, _ = t.w.WriteString(s + "\n") // Flush returns the error
}

// text writes s in lines of the width, each after the indent.
func (t *table) text(indent, s string) {
	width := t.style.Width
	if width > 0 {
		width = max(20, width-len(indent))
	}
	for _, line := range wrap(plain(s), width) {
		t.line(indent + line)
	}
}

func (t *table) head(r *check.Report) {
	t.line(t.paint(bold, plain(r.Target)))
	facts := "Effects: " + effects(r)
	if r.Contract != "" {
		facts += ". Contract: " + r.Contract
	}
	t.text("", facts+".")
	for _, note := range remarks(r) {
		t.text("", note)
	}
	t.line("")
}

// effects says how they were counted.
func effects(r *check.Report) string {
	if r.Oracle == "" || r.Oracle == "none" {
		return "not counted, so only answers were compared"
	}
	return r.Oracle
}

// list writes the line of each check. A title that does not fit is cut, since the details and the
// page of the check have it.
func (t *table) list(r *check.Report) {
	ids, titles, labels := 0, 0, 0
	for i := range r.Results {
		one := &r.Results[i]
		ids, titles, labels = max(ids, len(one.ID)), max(titles, len([]rune(one.Title))), max(labels, len(label(one)))
	}
	if t.style.Width > 0 {
		const gaps = 2 + 2 + 2 // after the mark, the id and the title
		titles = min(titles, t.style.Width-ids-labels-gaps)
	}
	for i := range r.Results {
		one := &r.Results[i]
		color := colors[one.Verdict]
		line := t.paint(color, marks[one.Verdict]) + " " + pad(one.ID, ids) + "  "
		if titles >= 12 {
			line += pad(cut(plain(one.Title), titles), titles) + "  "
		}
		t.line(line + t.paint(color, label(one)))
	}
}

// detail writes what was seen, how to see it again, and what to do.
func (t *table) detail(r *check.Result) {
	t.line("")
	t.line(t.paint(colors[r.Verdict], marks[r.Verdict]+" "+r.ID) + " " + t.paint(dim, label(r)))
	t.text("  ", sentence(r.Title))
	if r.Summary != "" {
		t.text("  ", "Seen: "+sentence(r.Summary))
	}
	if r.Verdict == check.Broken && len(r.Exchanges) > 0 {
		t.line("")
		for i := range r.Exchanges {
			t.exchange(&r.Exchanges[i])
		}
		t.line("")
	}
	if r.Help != "" {
		name := "Help: "
		if r.Verdict == check.Undecided {
			name = "Needs: "
		}
		t.text("  ", name+sentence(r.Help))
	}
	if r.Page != "" {
		t.line("  " + plain(r.Page))
	}
}

func (t *table) exchange(e *check.Exchange) {
	t.line("  " + t.paint(dim, "# "+plain(e.Step)+": "+plain(answer(e))))
	t.line("  " + oneLine(e.Curl))
}

var variable = regexp.MustCompile(`-H "[^" ]+: \$([A-Z0-9_]+)"`)

// variables returns the variables of the shell that curl lines of r use, sorted.
func variables(r *check.Report) []string {
	var names []string
	for i := range r.Results {
		for _, e := range r.Results[i].Exchanges {
			for _, m := range variable.FindAllStringSubmatch(e.Curl, -1) {
				names = append(names, "$"+m[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secretsNote says which variables to set before the curl lines work, or nothing.
func secretsNote(r *check.Report) string {
	names := variables(r)
	if len(names) == 0 {
		return ""
	}
	return "Credentials are not shown. Set " + strings.Join(names, ", ") + " before you run the curl lines."
}

func (t *table) secrets(r *check.Report) {
	if note := secretsNote(r); note != "" {
		t.line("")
		t.text("", note)
	}
}
