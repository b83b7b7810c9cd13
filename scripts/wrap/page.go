package main

import (
	"regexp"
	"strings"
)

var pageItem = regexp.MustCompile(`^(\s*(?:[-*]|\d+\.)\s+)(.*)$`)

// wrapPage wraps the paragraphs and lists of a page of Markdown. Tables, code, headings and what is
// marked stay as they are.
func wrapPage(src []byte) ([]byte, error) {
	lines := strings.Split(string(src), "\n")
	fixed := fixedLines(lines)
	var out []string
	for i := 0; i < len(lines); {
		if fixed[i] {
			out = append(out, lines[i])
			i++
			continue
		}
		first, rest, text := "", "", lines[i]
		if m := pageItem.FindStringSubmatch(lines[i]); m != nil {
			first, rest, text = m[1], strings.Repeat(" ", len(m[1])), m[2]
		} else if trimmed := strings.TrimLeft(text, " "); trimmed != text {
			first = text[:len(text)-len(trimmed)]
			rest, text = first, trimmed
		} else if strings.HasPrefix(text, "> ") {
			first, rest, text = "> ", "> ", text[2:]
		}
		tooLong := columnsOf(lines[i]) > columns
		end := i + 1
		for ; end < len(lines) && !fixed[end] && !pageItem.MatchString(lines[end]); end++ {
			tooLong = tooLong || columnsOf(lines[end]) > columns
			text += " " + strings.TrimPrefix(lines[end], strings.TrimSuffix(rest, " "))
		}
		if tooLong {
			out = append(out, fillLines(splitWords(text), first, rest)...)
		} else {
			out = append(out, lines[i:end]...)
		}
		i = end
	}
	return []byte(strings.Join(out, "\n")), nil
}

// fixedLines tells which lines are no text.
func fixedLines(lines []string) []bool {
	all, fence, list := make([]bool, len(lines)), false, false
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fence = !fence
			all[i] = true
			continue
		}
		if pageItem.MatchString(line) {
			list = true
		} else if trimmed != "" && !strings.HasPrefix(line, " ") {
			list = list && i > 0 && strings.TrimSpace(lines[i-1]) != ""
		}
		code := strings.HasPrefix(line, "    ") && !list
		all[i] = fence || code || trimmed == "" || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "<") ||
			strings.HasPrefix(trimmed, "![") || strings.HasPrefix(line, "[") && strings.Contains(line, "]: ")
	}
	return all
}

// longPageLines are the lines of text that are too long, but for those without a place to break.
func longPageLines(src []byte) (long []int) {
	lines := strings.Split(string(src), "\n")
	for i, fixed := range fixedLines(lines) {
		if !fixed && columnsOf(lines[i]) > columns && len(splitWords(lines[i])) > 2 {
			long = append(long, i+1)
		}
	}
	return long
}
