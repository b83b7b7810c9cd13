package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	columns  = 100
	tabWidth = 4
)

// columnsOf is how many columns a line takes.
func columnsOf(line string) int {
	return utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabWidth-1)
}

// fillLines puts words into lines that begin with first, and then with rest.
func fillLines(words []string, first, rest string) (lines []string) {
	line, empty := first, true
	for _, w := range words {
		if !empty && columnsOf(line)+1+columnsOf(w) > columns {
			lines = append(lines, line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line += w
		empty = false
	}
	return append(lines, line)
}

// notFirst is what would be more than a word at the beginning of a line.
var notFirst = regexp.MustCompile(`^(?:[-+*>|]|\d+[.)]|#.*|\|.*|//.*)$`)

// splitWords splits text where a line may be broken: at spaces, but not inside of code.
func splitWords(text string) (all []string) {
	for _, w := range strings.Fields(text) {
		if last := len(all) - 1; last >= 0 && (strings.Count(all[last], "`")%2 == 1 || notFirst.MatchString(w)) {
			all[last] += " " + w
			continue
		}
		all = append(all, w)
	}
	return all
}
