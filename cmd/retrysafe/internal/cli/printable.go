package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable quotes a text with characters that could control the terminal or begin a line, since it
// came from outside.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// indentBody returns a body from outside for the terminal. Its lines are indented, so that none
// looks like a line of the command. What is not printable is escaped, except for tabs.
func indentBody(body []byte) string {
	var b strings.Builder
	b.WriteString("  ")
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, body[0])
		case r == '\n' && len(body) == 1: // the line ends anyway
		case r == '\n':
			b.WriteString("\n  ")
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		body = body[size:]
	}
	return b.String()
}
