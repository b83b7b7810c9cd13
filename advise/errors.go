package advise

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where a text does not follow a dialect.
type SyntaxError struct {
	Dialect Dialect
	// Line and Column are where the parser stopped, from 1, or zero if it did not say.
	Line, Column int
	// Message is the parser's message.
	Message string
}

// Error returns the dialect, the place and the message of the parser.
func (e *SyntaxError) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf(" line %d, column %d:", e.Line, e.Column)
	}
	return fmt.Sprintf("advise: read as %s:%s %s", e.Dialect, where, e.Message)
}

// lineAndColumn returns the line and the column of a byte of text.
func lineAndColumn(text string, at int) (line, column int) {
	at = max(0, min(at, len(text)))
	before := text[:at]
	last := strings.LastIndexByte(before, '\n')
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[last+1:])
}

// skipBlanks returns the first position from at that is not white space or a comment.
func skipBlanks(text string, at int) int {
	for at < len(text) {
		rest := text[at:]
		switch {
		case strings.ContainsRune(" \t\r\n\f\v;", rune(rest[0])):
			at++
		case strings.HasPrefix(rest, "--"), rest[0] == '#':
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				return len(text)
			}
			at += n + 1
		case strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*!") && !strings.HasPrefix(rest, "/*+"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return len(text)
			}
			at += n + 4
		default:
			return at
		}
	}
	return at
}
