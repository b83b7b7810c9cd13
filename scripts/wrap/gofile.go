package main

import (
	"go/format"
	"regexp"
	"strings"
)

var (
	ownLine   = regexp.MustCompile(`^(\t*)//(.*)$`)
	item      = regexp.MustCompile(`^(\s+(?:-|\*|\d+\.)\s+)(.*)$`)
	directive = regexp.MustCompile(`^(?:[a-z]+:|nolint|line |export |extern |\s*(?:snippet:|end$|Output:|Unordered output:|Code generated))`)
	output    = regexp.MustCompile(`^\s*(?:Unordered output|Output):`)
	link      = regexp.MustCompile(`^ \[[^\]]+\]: \S+$`)
	trailing  = regexp.MustCompile(`^(\t*)(.*\S)\s+// (.*)$`)
)

// goFile wraps the comments of a file: those on lines of their own, and those after code, which it puts above.
func goFile(src []byte) ([]byte, error) {
	if strings.Contains(string(src), "// Code generated") {
		return src, nil
	}
	lines := strings.Split(string(src), "\n")
	raw := rawStrings(lines)
	var out []string
	for i := 0; i < len(lines); {
		m := ownLine.FindStringSubmatch(lines[i])
		if m == nil || raw[i] {
			out = append(out, moved(lines[i], raw[i])...)
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
		out = append(out, comment(m[1], block)...)
	}
	return format.Source([]byte(strings.Join(out, "\n")))
}

// comment wraps the paragraphs of a block that have a line that is too long.
func comment(indent string, block []string) (out []string) {
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
			tooLong = tooLong || width(prefix+l) > columns
		}
		switch {
		case !tooLong:
			for _, l := range block[i:end] {
				out = append(out, prefix+l)
			}
		case start != nil:
			text := start[2] + " " + strings.Join(block[i+1:end], " ")
			out = append(out, fill(words(text), prefix+start[1], prefix+strings.Repeat(" ", len(start[1])))...)
		default:
			out = append(out, fill(words(strings.Join(block[i:end], " ")), prefix+" ", prefix+" ")...)
		}
		i = end
	}
	return out
}

// moved puts the comment after code on a line of its own, where both together are too long.
func moved(line string, raw bool) []string {
	m := trailing.FindStringSubmatch(line)
	if raw || width(line) <= columns || m == nil || strings.Contains(line, "//nolint") || !isCode(m[2]) {
		return []string{line}
	}
	indent, code := m[1], m[2]
	if strings.HasSuffix(code, "{") || strings.HasSuffix(code, ":") && (strings.HasPrefix(code, "case ") || code == "default:") {
		return append([]string{indent + code}, comment(indent+"\t", []string{" " + m[3]})...)
	}
	return append(comment(indent, []string{" " + m[3]}), indent+code)
}

// isCode tells code whose quotes are closed from the beginning of a text that has // in it.
func isCode(code string) bool {
	return strings.Count(code, "`")%2 == 0 && strings.Count(strings.ReplaceAll(code, `\"`, ""), `"`)%2 == 0
}

// rawStrings tells which lines begin inside of a raw string.
func rawStrings(lines []string) []bool {
	inside, all := false, make([]bool, len(lines))
	for i, line := range lines {
		all[i] = inside
		if !inside {
			if at := commentAt(line); at >= 0 {
				line = line[:at]
			}
		}
		if strings.Count(line, "`")%2 == 1 {
			inside = !inside
		}
	}
	return all
}

// commentAt is where the comment of a line begins; -1: it has none.
func commentAt(line string) int {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\' && quote != '`':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '`' || c == '\''):
			quote = c
		case quote == 0 && c == '/' && strings.HasPrefix(line[i:], "//"):
			return i
		}
	}
	return -1
}

// goLines are the comments that are too long, but for directives and what has no space to break at.
func goLines(src []byte) (long []int) {
	if strings.Contains(string(src), "// Code generated") {
		return nil
	}
	lines := strings.Split(string(src), "\n")
	raw := rawStrings(lines)
	for i, line := range lines {
		at := commentAt(line)
		if raw[i] || width(line) <= columns || at < 0 || strings.Contains(line, "//nolint") {
			continue
		}
		text := line[at+2:]
		if directive.MatchString(text) || strings.HasPrefix(text, "\t") || len(words(text)) < 2 {
			continue
		}
		long = append(long, i+1)
	}
	return long
}
