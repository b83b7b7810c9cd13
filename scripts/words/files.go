package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/scripts/internal/source"
)

// exempt is the page that names the words; so do the files of this command.
const exempt = "writing.md"

// checkTree looks at all files below roots. What it finds is file:line: and advice.
func checkTree(roots []string) (found []string, err error) {
	err = source.Walk(roots, func(path string, src []byte) error {
		if filepath.Base(path) == exempt || strings.HasSuffix(filepath.ToSlash(filepath.Dir(path)), "scripts/words") {
			return nil
		}
		texts := pageText
		if source.IsGo(path) {
			texts = goComments
			found = append(found, checkNames(path, src)...)
		}
		lines := texts(src)
		if source.IsGo(path) && isProduct(path) {
			lines = append(lines, goTexts(src)...)
		}
		for _, t := range lines {
			for _, f := range findWords(t.text) {
				found = append(found, fmt.Sprintf("%s:%d: %s", path, t.line, f))
			}
		}
		return nil
	})
	return found, err
}

// findWords is what is wrong with one line of text.
func findWords(text string) (found []string) {
	for _, e := range entries {
		rest := text
		if e.exceptions != nil {
			rest = e.exceptions.ReplaceAllString(rest, "")
		}
		if m := e.pattern.FindString(rest); m != "" {
			found = append(found, fmt.Sprintf("%q: write %s", m, e.instead))
		}
	}
	return found
}

// textLine is one line of a comment or of a page.
type textLine struct {
	line int
	text string
}

// goComments are the lines of a file's comments, but for code and for what examples print.
func goComments(src []byte) (out []textLine) {
	comments, _ := source.Scan(src)
	printed := false
	for _, c := range comments {
		printed = c.Next && printed || strings.Contains(c.Text, "Output:")
		for i, line := range strings.Split(c.Text, "\n") {
			if !printed && !strings.HasPrefix(line, "//\t") {
				out = append(out, textLine{c.Line + i, stripQuotes(line)})
			}
		}
	}
	return out
}

// pageText are the lines of a page of Markdown, but for its blocks of code.
func pageText(src []byte) (out []textLine) {
	code := false
	for i, line := range strings.Split(string(src), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if !code {
			out = append(out, textLine{i + 1, stripQuotes(line)})
		}
	}
	return out
}

var codeSpan = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|<!--.*?-->|// snippet: .*")

// stripQuotes is a line without what it quotes.
func stripQuotes(line string) string { return codeSpan.ReplaceAllString(line, "“”") }
