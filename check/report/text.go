package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/check"
)

// unfit is shown in place of a character that could control a terminal.
const replacement = "\uFFFD"

// plainText returns s on one line, without characters that control a terminal.
func plainText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(replacement)
		}
	}
	return b.String()
}

// asSentence returns s with a capital letter and a full stop.
func asSentence(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	first, n := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[n:]
	if !strings.ContainsAny(s[len(s)-1:], ".!?:") {
		s += "."
	}
	return s
}

// resultRemark is what was seen and what to do, on one line.
func resultRemark(r *check.Result) string {
	return plainText(strings.TrimSpace(asSentence(r.Summary) + " " + asSentence(r.Help)))
}

// oneLine returns a curl line without line breaks. A character in single quotes that would break
// the line, or control a terminal, is written as $'\012', which shells read as the same byte.
func oneLine(curl string) string {
	var b strings.Builder
	for len(curl) > 0 {
		r, n := utf8.DecodeRuneInString(curl)
		if bad := r == utf8.RuneError && n == 1; !bad && unicode.IsPrint(r) {
			b.WriteString(curl[:n])
			curl = curl[n:]
			continue
		}
		// one pair of quotes for all such characters in a row
		b.WriteString(`'$'`)
		for len(curl) > 0 {
			r, n = utf8.DecodeRuneInString(curl)
			if (r != utf8.RuneError || n != 1) && unicode.IsPrint(r) {
				break
			}
			for _, c := range []byte(curl[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
			curl = curl[n:]
		}
		b.WriteString(`''`)
	}
	return b.String()
}

// wrapText returns s in lines of at most width characters; a longer word has a line of its own. No
// width: one line.
func wrapText(s string, width int) []string {
	if width <= 0 {
		return []string{s}
	}
	return wrapWords(strings.Fields(s), width)
}

func wrapWords(words []string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// padRight returns s with spaces up to width characters.
func padRight(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// cutText returns the first width characters of s, with a sign if any are left out.
func cutText(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:max(0, width-1)]), " ") + "…"
}
