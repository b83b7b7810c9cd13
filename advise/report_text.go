package advise

import (
	"fmt"
	"strings"
)

// Text returns the report for people, with a paragraph for each statement.
func (r *Report) Text() string {
	var b strings.Builder
	for i := range r.Advice {
		a := &r.Advice[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d:%d %s\n  %s", a.Line, a.Column, summaryLine(a.Statement), a.Verdict)
		if len(a.Guards) > 0 {
			fmt.Fprintf(&b, ": %s", strings.Join(a.Guards, ", "))
		}
		b.WriteByte('\n')
		for _, why := range a.Why {
			fmt.Fprintf(&b, "  %s\n", why)
		}
	}
	return b.String()
}

// summaryLine returns the beginning of a statement on one line.
func summaryLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return text
}
