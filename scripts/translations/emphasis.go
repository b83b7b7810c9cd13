package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var stars = regexp.MustCompile(`\*\*`)

// brokenEmphasis finds pairs of ** that Markdown shows as stars. CommonMark does not end strong
// emphasis between a punctuation mark and a letter, nor begin it between a letter and a punctuation
// mark, and Chinese puts no spaces there.
func brokenEmphasis(text string) (found []string) {
	for l := range strings.Lines(text) {
		// Code has stars of its own; what stands beside it does not matter.
		l = mono.ReplaceAllString(l, "`")
		var marks []int
		for _, at := range stars.FindAllStringIndex(l, -1) {
			before, after := runesBeside(l, at[0])
			if !unicode.IsSpace(before) || !unicode.IsSpace(after) {
				marks = append(marks, at[0])
			}
		}
		for i := 0; i+1 < len(marks); i += 2 {
			for end, at := range marks[i : i+2] {
				outside, inside := runesBeside(l, at)
				if end == 1 {
					outside, inside = inside, outside
				}
				if unicode.IsSpace(inside) || isPunctuation(inside) && !isPunctuation(outside) && !unicode.IsSpace(outside) {
					found = append(found, fmt.Sprintf("** is shown as two stars in %q: move %q out of it", textAround(l, at), inside))
				}
			}
		}
	}
	return found
}

// runesBeside returns the characters before and after the stars at a place.
func runesBeside(l string, at int) (before, after rune) {
	before, after = ' ', ' '
	if at > 0 {
		before, _ = utf8.DecodeLastRuneInString(l[:at])
	}
	if at+2 < len(l) {
		after, _ = utf8.DecodeRuneInString(l[at+2:])
	}
	return before, after
}

// isPunctuation reports whether r counts as punctuation in CommonMark 0.31.
func isPunctuation(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// textAround returns some characters of a line before and after a place.
func textAround(l string, at int) string {
	before, after := []rune(l[:at]), []rune(l[at:])
	return string(before[max(0, len(before)-10):]) + string(after[:min(len(after), 12)])
}
