package check

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// parseWhole returns the whole number that text is.
func parseWhole(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("is no whole number: %s", quoteStart([]byte(text)))
	}
	return n, nil
}

// lastNumber returns the last number of the last line that has more than spaces. It leaves out
// the line with which psql ends a table, "(1 row)".
func lastNumber(output string) (int64, error) {
	line := ""
	for text := range strings.Lines(output) {
		text = strings.TrimSpace(text)
		if text != "" && text != "(1 row)" {
			line = text
		}
	}
	if line == "" {
		return 0, fmt.Errorf("printed nothing; it has to print the number of effects")
	}
	end := strings.LastIndexFunc(line, isDigit) + 1
	if end == 0 {
		return 0, fmt.Errorf("printed no number on its last line: %s", quoteStart([]byte(line)))
	}
	start := len(strings.TrimRight(line[:end], "0123456789.,"))
	if start > 0 && line[start-1] == '-' && (start == 1 || !isAlphanumeric(rune(line[start-2]))) {
		start--
	}
	n, err := strconv.ParseInt(line[start:end], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("printed %s, which is no whole number", quoteStart([]byte(line[start:end])))
	}
	return n, nil
}

func isDigit(c rune) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// quoteStart returns the beginning of a text from outside, on one line, in quotes.
func quoteStart(text []byte) string {
	const most = 120
	if len(text) <= most {
		return strconv.Quote(string(text))
	}
	return strconv.Quote(strings.ToValidUTF8(string(text[:most]), "")) + " …"
}
