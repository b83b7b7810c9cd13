package main

import (
	"go/format"
	"regexp"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/scripts/internal/source"
)

var (
	ownLine   = regexp.MustCompile(`^(\t*)//(.*)$`)
	item      = regexp.MustCompile(`^(\s+(?:-|\*|\d+\.)\s+)(.*)$`)
	directive = regexp.MustCompile(`^(?:[a-z]+:|nolint|line |export |extern |\s*(?:snippet:|end$|Output:|Unordered output:|Code generated))`)
	output    = regexp.MustCompile(`^\s*(?:Unordered output|Output):`)
	link      = regexp.MustCompile(`^ \[[^\]]+\]: \S+$`)
)

// wrapGoFile wraps the comments of a file: those on lines of their own, and those after code, which it puts above.
func wrapGoFile(src []byte) ([]byte, error) {
	if strings.Contains(string(src), "// Code generated") {
		return src, nil
	}
	lines := strings.Split(string(src), "\n")
	comments, raw := lineMarks(src)
	var out []string
	for i := 0; i < len(lines); {
		m := ownLine.FindStringSubmatch(lines[i])
		if m == nil || raw[i] {
			out = append(out, moveComment(lines[i], comments[i])...)
			i++
			continue
		}
		var block []string
		for ; i < len(lines); i++ {
			next := ownLine.FindStringSubmatch(lines[i])
			if next == nil || next[1] != m[1] || raw[i] {
				break
			}
			block = append(block, next[2])
		}
		out = append(out, wrapComment(m[1], block)...)
	}
	return format.Source([]byte(strings.Join(out, "\n")))
}

// wrapComment wraps the paragraphs of a block that have a line that is too long.
func wrapComment(indent string, block []string) (out []string) {
	prefix := indent + "//"
	for i := 0; i < len(block); {
		line := block[i]
		if output.MatchString(line) { // what an example prints
			for _, l := range block[i:] {
				out = append(out, prefix+l)
			}
			return out
		}
		start := item.FindStringSubmatch(line)
		plain := strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, " #") && !link.MatchString(line)
		if directive.MatchString(line) || start == nil && !plain {
			out = append(out, prefix+line)
			i++
			continue
		}
		end := i + 1
		for end < len(block) && !directive.MatchString(block[end]) {
			if start == nil && (!strings.HasPrefix(block[end], " ") || strings.HasPrefix(block[end], "  ") || strings.HasPrefix(block[end], " #")) {
				break
			}
			if start != nil && (item.MatchString(block[end]) || !strings.HasPrefix(block[end], "    ")) {
				break
			}
			end++
		}
		tooLong := false
		for _, l := range block[i:end] {
			tooLong = tooLong || columnsOf(prefix+l) > columns
		}
		switch {
		case !tooLong:
			for _, l := range block[i:end] {
				out = append(out, prefix+l)
			}
		case start != nil:
			text := start[2] + " " + strings.Join(block[i+1:end], " ")
			out = append(out, fillLines(splitWords(text), prefix+start[1], prefix+strings.Repeat(" ", len(start[1])))...)
		default:
			out = append(out, fillLines(splitWords(strings.Join(block[i:end], " ")), prefix+" ", prefix+" ")...)
		}
		i = end
	}
	return out
}

// moveComment puts the comment after code on a line of its own, where both together are too long. at is
// where the comment begins; -1: there is none.
func moveComment(line string, at int) []string {
	if columnsOf(line) <= columns || at < 0 || !strings.HasPrefix(line[at:], "// ") || strings.Contains(line, "//nolint") {
		return []string{line}
	}
	code, text := strings.TrimRight(line[:at], " \t"), line[at+len("// "):]
	indent := code[:len(code)-len(strings.TrimLeft(code, "\t"))]
	code = code[len(indent):]
	if code == "" {
		return []string{line}
	}
	if strings.HasSuffix(code, "{") || strings.HasSuffix(code, ":") && (strings.HasPrefix(code, "case ") || code == "default:") {
		return append([]string{indent + code}, wrapComment(indent+"\t", []string{" " + text})...)
	}
	return append(wrapComment(indent, []string{" " + text}), indent+code)
}

// lineMarks are the lines of a Go file: where the comment of each begins, or -1, and which begin inside
// a raw string.
func lineMarks(src []byte) (comments []int, raw []bool) {
	all, raw := source.Scan(src)
	comments = slices.Repeat([]int{-1}, len(raw))
	for _, c := range all {
		if strings.HasPrefix(c.Text, "//") {
			comments[c.Line-1] = c.Column
		}
	}
	return comments, raw
}

// longGoLines are the comments that are too long, but for directives and what has no space to break at.
func longGoLines(src []byte) (long []int) {
	if strings.Contains(string(src), "// Code generated") {
		return nil
	}
	lines := strings.Split(string(src), "\n")
	comments, _ := lineMarks(src)
	for i, line := range lines {
		at := comments[i]
		if columnsOf(line) <= columns || at < 0 || strings.Contains(line, "//nolint") {
			continue
		}
		text := line[at+2:]
		if directive.MatchString(text) || strings.HasPrefix(text, "\t") || len(splitWords(text)) < 2 {
			continue
		}
		long = append(long, i+1)
	}
	return long
}
