package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/check"
)

// harms says what each severity is.
var harms = map[check.Severity]string{
	check.Minor:    "a client gets less than it could use",
	check.Serious:  "a client gets an answer that is not true",
	check.Critical: "an operation takes effect twice or never, or an answer reaches a stranger",
}

// Page returns the page of a check in Markdown: what it sends and why, what counts as broken, and
// how to mend it.
func Page(c *check.Check) string {
	p := &markdownPage{}
	p.line("# " + c.ID)
	p.text("", sentence(c.Title))
	p.text("", fmt.Sprintf("Severity %s: %s.", c.Severity, harms[c.Severity]))
	p.line("## Why")
	p.text("", sentence(c.Why))
	p.line("## What is sent")
	for i, step := range c.Sends {
		p.item(fmt.Sprintf("%d. ", i+1), step)
	}
	p.end()
	p.text("", "At most "+plural(c.Requests, "request")+".")
	p.line("## What counts as broken")
	for _, wrong := range c.Wrong {
		p.item("- ", wrong)
	}
	if len(c.Wrong) == 0 {
		p.text("", "Nothing. The check notes what clients have to know.")
	} else {
		p.end()
	}
	p.line("## How to mend it")
	p.text("", sentence(c.Fix))
	return strings.TrimRight(p.b.String(), "\n") + "\n"
}

// Overview returns a table of checks in Markdown. Each links to its page in the directory checks.
func Overview(checks []*check.Check) string {
	var b strings.Builder
	b.WriteString("| check | what a right API does | severity |\n|---|---|---|\n")
	for _, c := range checks {
		fmt.Fprintf(&b, "| [%s](checks/%s.md) | %s | %s |\n", c.ID, c.ID, strings.ReplaceAll(c.Title, "|", `\|`), c.Severity)
	}
	return b.String()
}

// markdownPage is text with lines of at most 100 columns.
type markdownPage struct{ b strings.Builder }

func (p *markdownPage) line(s string) { p.b.WriteString(s + "\n\n") }

func (p *markdownPage) end() { p.b.WriteByte('\n') }

func (p *markdownPage) text(first, s string) {
	p.item(first, s)
	p.end()
}

// item writes s with lines that begin with first, and then with as many spaces.
func (p *markdownPage) item(first, s string) {
	const columns = 100
	for i, line := range wrapWords(markdownWords(sentence(s)), columns-len(first)) {
		if i == 1 {
			first = strings.Repeat(" ", len(first))
		}
		p.b.WriteString(first + line + "\n")
	}
}

// begins is what Markdown reads as the begin of a list, a heading or a quotation.
var begins = regexp.MustCompile(`^(?:[-+*>|#]|\d+[.)]$)`)

// markdownWords splits s where a line may be broken: not in code, and not before a word that means
// something at the begin of a line.
func markdownWords(s string) (all []string) {
	for word := range strings.FieldsSeq(s) {
		last := len(all) - 1
		if last >= 0 && (strings.Count(all[last], "`")%2 == 1 || begins.MatchString(word)) {
			all[last] += " " + word
			continue
		}
		all = append(all, word)
	}
	return all
}
