package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/check"
)

// Page returns what docs/checks.md says of a check: what it sends and why, what counts as broken,
// and how to mend it. Its heading is the name of the check.
func Page(c *check.Check) string {
	p := &markdownPage{}
	p.addLine("## " + c.ID)
	p.addText("", asSentence(c.Title)+" Severity: "+c.Severity.String()+".")
	p.addText("", "**Why:** "+asSentence(c.Why))
	p.addLine("**What is sent**, at most " + countNoun(c.Requests, "request") + ":")
	for i, step := range c.Sends {
		p.addItem(fmt.Sprintf("%d. ", i+1), step)
	}
	p.addBlank()
	if len(c.Wrong) == 0 {
		p.addText("", "**What counts as broken:** nothing. The check notes what clients have to know.")
	} else {
		p.addLine("**What counts as broken:**")
		for _, wrong := range c.Wrong {
			p.addItem("- ", wrong)
		}
		p.addBlank()
	}
	p.addText("", "**How to mend it:** "+asSentence(c.Fix))
	return strings.TrimRight(p.b.String(), "\n") + "\n"
}

// Overview returns a table of checks in Markdown. Each row links to the heading of its check.
func Overview(checks []*check.Check) string {
	var b strings.Builder
	b.WriteString("| check | what a right API does | severity |\n|---|---|---|\n")
	for _, c := range checks {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", c.ID, c.ID, strings.ReplaceAll(c.Title, "|", `\|`), c.Severity)
	}
	return b.String()
}

// markdownPage is text with lines of at most 100 columns.
type markdownPage struct{ b strings.Builder }

func (p *markdownPage) addLine(s string) { p.b.WriteString(s + "\n\n") }

func (p *markdownPage) addBlank() { p.b.WriteByte('\n') }

func (p *markdownPage) addText(first, s string) {
	p.addItem(first, s)
	p.addBlank()
}

// addItem writes s with lines that begin with first, and then with as many spaces.
func (p *markdownPage) addItem(first, s string) {
	const columns = 100
	for i, line := range wrapWords(markdownWords(asSentence(s)), columns-len(first)) {
		if i == 1 {
			first = strings.Repeat(" ", len(first))
		}
		p.b.WriteString(first + line + "\n")
	}
}

// begins is what Markdown reads as the begin of a list, a heading or a quotation.
var blockStart = regexp.MustCompile(`^(?:[-+*>|#]|\d+[.)]$)`)

// markdownWords splits s where a line may be broken: not in code, and not before a word that means
// something at the begin of a line.
func markdownWords(s string) (all []string) {
	for word := range strings.FieldsSeq(s) {
		last := len(all) - 1
		if last >= 0 && (strings.Count(all[last], "`")%2 == 1 || blockStart.MatchString(word)) {
			all[last] += " " + word
			continue
		}
		all = append(all, word)
	}
	return all
}
