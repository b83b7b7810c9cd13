package advise

import (
	"fmt"
	"strings"
)

// Limits of a statement of PostgreSQL. The parser recurses into nested parts without a limit of its
// own, and a stack overflow would end the process. These limits are far below that.
const (
	mostChained = 400 // words and signs without a comma, over all open brackets
	mostOpen    = 100 // open brackets at once
	mostUnions  = 150 // set operators in a statement, which commas may separate
)

// depthMeter measures how deep a tree can be: each level takes a word or a sign, and commas
// separate parts of the same level.
type depthMeter struct {
	open        []int // words since the last comma, for each open bracket
	sum, unions int
	tooDeep     bool
}

func (c *depthMeter) addWord(w string) {
	switch {
	case w == ";" && len(c.open) == 1:
		c.unions = 0
		fallthrough
	case w == "," || w == ";":
		c.sum -= c.open[len(c.open)-1]
		c.open[len(c.open)-1] = 0
		return
	case w == "(" || w == "[":
		c.addLevel()
		c.open = append(c.open, 0)
	case (w == ")" || w == "]") && len(c.open) > 1:
		c.sum -= c.open[len(c.open)-1]
		c.open = c.open[:len(c.open)-1]
	default:
		switch strings.ToLower(w) {
		case "union", "except", "intersect":
			c.unions++
		}
		c.addLevel()
	}
	c.tooDeep = c.tooDeep || c.sum > mostChained || len(c.open) > mostOpen || c.unions > mostUnions
}

func (c *depthMeter) addLevel() {
	c.open[len(c.open)-1]++
	c.sum++
}

// checkPostgresDepth refuses statements on which the parser might overflow the stack.
func checkPostgresDepth(text string) error {
	c := &depthMeter{open: []int{0}}
	for at := 0; at < len(text) && !c.tooDeep; {
		n := postgresWordLength(text[at:], at > 0 && isNameByte(text[at-1]))
		if w := text[at : at+n]; strings.TrimSpace(w) != "" && !strings.HasPrefix(w, "--") && !strings.HasPrefix(w, "/*") {
			c.addWord(w)
		}
		at += n
	}
	if c.tooDeep {
		return &SyntaxError{Message: fmt.Sprintf("a statement is too long a chain: %d words without a comma, %d open brackets or %d set operators are the most",
			mostChained, mostOpen, mostUnions)}
	}
	return nil
}

func isNameByte(b byte) bool {
	return b == '_' || b == '$' || b >= 0x80 || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// postgresWordLength returns the length of the first word, sign, string or comment of text, which
// must not be empty.
func postgresWordLength(text string, inside bool) int {
	switch b := text[0]; {
	case strings.HasPrefix(text, "--"):
		return lengthUpTo(text, "\n", 2)
	case strings.HasPrefix(text, "/*"):
		return commentLength(text)
	case b == '\'':
		return lengthUpTo(text, "'", 1)
	case b == '"':
		return lengthUpTo(text, `"`, 1)
	case (b == 'e' || b == 'E') && !inside && strings.HasPrefix(text[1:], "'"):
		return escapedStringLength(text)
	case b == '$' && !inside:
		if end := strings.IndexByte(text[1:], '$'); end >= 0 && isDollarTag(text[1:1+end]) {
			return lengthUpTo(text, text[:end+2], end+2)
		}
		return 1
	case isNameByte(b):
		n := 1
		for n < len(text) && isNameByte(text[n]) {
			n++
		}
		return n
	}
	return 1
}

// isDollarTag reports whether a name can be between the dollars of a string.
func isDollarTag(name string) bool {
	for i := range len(name) {
		if !isNameByte(name[i]) || name[i] == '$' || i == 0 && name[i] >= '0' && name[i] <= '9' {
			return false
		}
	}
	return true
}

// lengthUpTo returns the length up to and including end, searched for from a position on.
func lengthUpTo(text, end string, from int) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}

// commentLength returns the length of a comment that may contain others.
func commentLength(text string) int {
	open := 0
	for i := 0; i < len(text)-1; i++ {
		switch text[i : i+2] {
		case "/*":
			open++
			i++
		case "*/":
			i++
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// escapedStringLength returns the length of a string in which a backslash escapes the next byte.
func escapedStringLength(text string) int {
	for i := 2; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(text)
}
