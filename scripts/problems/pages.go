package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	made     = "<!-- made from problems.txt by go run ./scripts/problems -write -->\n"
	tableEnd = "<!-- end of problems -->\n"
	columns  = 100 // of a line, as go run ./scripts/wrap counts
)

// language is what a page says in a language around the texts of problems.txt.
type language struct {
	// mark is what the name of a part has at its end, and file that of a page.
	mark, file string
	// other is the name of the other language, and otherFile the end of its pages.
	other, otherFile                   string
	happened, done, client, operator   string
	status, retried, stop, comma, last string
	yes                                string
}

var (
	english = language{
		file: ".md", other: "中文", otherFile: ".zh-CN.md",
		happened: "What happened", done: "Was anything done?", client: "What to do", operator: "What the operator can do",
		status: "Status ", retried: ", with `Retry-After`", stop: ". ", comma: ", ", last: " or ", yes: "yes",
	}
	chinese = language{
		mark: " zh", file: ".zh-CN.md", other: "English", otherFile: ".md",
		happened: "发生了什么", done: "执行了吗？", client: "该怎么办", operator: "运维人员能做什么",
		status: "状态码 ", retried: "，带有 `Retry-After`", stop: "。", comma: "、", last: " 或 ", yes: "是",
	}
)

// title returns the title of a problem as a sentence.
func (l *language) title(p *problem) string {
	text := p.parts["title zh"]
	if l.mark == "" {
		text = p.code.Title()
	}
	return text + strings.TrimSpace(l.stop)
}

// statuses returns the status of a problem, and the others that it may have.
func (l *language) statuses(p *problem) string {
	all := append([]string{strconv.Itoa(p.code.HTTPStatus())}, p.also...)
	if n := len(all) - 1; n > 0 {
		return strings.Join(all[:n], l.comma) + l.last + all[n]
	}
	return all[0]
}

// page returns the page of a problem.
func (l *language) page(p *problem) string {
	name := p.code.String()
	status := l.status + l.statuses(p)
	if p.code.Retryable() {
		status += l.retried
	}
	status += strings.TrimSpace(l.stop)
	between := strings.TrimPrefix(l.stop, strings.TrimSpace(l.stop))
	if utf8.RuneCountInString(status+between+l.title(p)) > columns {
		between = "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# %s\n\n[%s](%s)\n\n%s%s%s\n", made, name, l.other, name+l.otherFile, status, between, l.title(p))
	for _, part := range []struct{ heading, name string }{
		{l.happened, "happened"}, {l.done, "done"}, {l.client, "client"}, {l.operator, operator},
	} {
		if text := p.parts[part.name+l.mark]; text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.heading, text)
		}
	}
	return b.String()
}

// table returns the rows of the list of all problems.
func (l *language) table(all []problem) string {
	var b strings.Builder
	for i := range all {
		p, retried := &all[i], ""
		if p.code.Retryable() {
			retried = l.yes + " "
		}
		name := p.code.String()
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s| %s |\n", name, name+l.file, l.statuses(p), retried, l.title(p))
	}
	return b.String()
}
