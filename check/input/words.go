package input

import (
	"strings"

	"github.com/retrysafe/retrysafe/check/internal/place"
)

// word is a word of a shell command, after quotes and variables.
type word struct {
	text string
	at   int // the offset of its first byte
}

// words splits a command as bash does, and says what it does not know. No library that we found
// gives places, reads $'…' and bounds its depth.
type words struct {
	src    string
	pos    int
	lookup func(string) (string, bool)
	word   strings.Builder
	in     bool // a word has begun, perhaps an empty one
	start  int
	out    []word
}

// split returns the words of the first command of src. A pipe ends it.
func split(src string, lookup func(string) (string, bool)) ([]word, error) {
	w := &words{src: src, lookup: lookup}
	for w.pos < len(w.src) {
		ended, err := w.step()
		if err != nil {
			return nil, err
		}
		if ended {
			break
		}
	}
	w.end()
	return w.out, nil
}

// operators are what a shell reads as more than a part of a word.
var operators = map[byte]string{
	'&': "& ends the command; put the URL in quotes",
	'<': "< reads a file; use -d @FILE",
	'>': "> writes to a file; leave it out",
	'(': "( starts a shell of its own; put the word in quotes",
	')': ") ends a shell of its own; put the word in quotes",
	'`': "` runs a command; put its output there",
}

// step reads one piece of the text. It reports whether the command has ended.
func (w *words) step() (ended bool, err error) {
	c := w.src[w.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		w.end()
		w.pos++
	case c == '\n':
		w.end()
		w.pos++
		return w.rest("")
	case c == ';':
		w.end()
		w.pos++
		return w.rest("; ends the command; put the word before it in quotes")
	case c == '|':
		return true, nil
	case c == '#' && !w.in:
		w.comment()
	case c == '\\':
		w.escaped()
	case c == '\'':
		return false, w.single()
	case c == '"':
		return false, w.double()
	case c == '$':
		return false, w.dollar(false)
	case operators[c] != "":
		return false, place.Fault(w.pos, "%s", operators[c])
	default:
		w.keep(c)
	}
	return false, nil
}

// rest ends the command after a line or a semicolon. Only comments may follow.
func (w *words) rest(advice string) (ended bool, err error) {
	if len(w.out) == 0 {
		return false, nil
	}
	for w.pos < len(w.src) {
		switch c := w.src[w.pos]; {
		case c == '#':
			w.comment()
		case strings.IndexByte(" \t\r\n;", c) >= 0:
			w.pos++
		case advice != "":
			return false, place.Fault(w.pos, "%s", advice)
		default:
			return false, place.Fault(w.pos, `a second command starts here; end the line before with \ if it goes on`)
		}
	}
	return true, nil
}

func (w *words) comment() {
	for w.pos < len(w.src) && w.src[w.pos] != '\n' {
		w.pos++
	}
}

func (w *words) begin() {
	if !w.in {
		w.in, w.start = true, w.pos
	}
}

// keep adds one byte as it is.
func (w *words) keep(c byte) {
	w.begin()
	w.word.WriteByte(c)
	w.pos++
}

// end ends the word, if one has begun.
func (w *words) end() {
	if w.in {
		w.out = append(w.out, word{w.word.String(), w.start})
	}
	w.in = false
	w.word.Reset()
}

// newline returns how many bytes of a line's end are at offset i.
func (w *words) newline(i int) int {
	switch {
	case strings.HasPrefix(w.src[i:], "\n"):
		return 1
	case strings.HasPrefix(w.src[i:], "\r\n"):
		return 2
	}
	return 0
}

// escaped reads a backslash outside of quotes.
func (w *words) escaped() {
	if n := w.newline(w.pos + 1); n > 0 {
		w.pos += 1 + n
		return
	}
	w.begin()
	w.pos++
	if w.pos < len(w.src) {
		w.keep(w.src[w.pos])
	}
}

func (w *words) single() error {
	w.begin()
	text, _, closed := strings.Cut(w.src[w.pos+1:], "'")
	if !closed {
		return place.Fault(w.pos, "the quote ' is not closed")
	}
	w.word.WriteString(text)
	w.pos += len(text) + 2
	return nil
}

func (w *words) double() error {
	w.begin()
	open := w.pos
	w.pos++
	for w.pos < len(w.src) {
		switch c := w.src[w.pos]; c {
		case '"':
			w.pos++
			return nil
		case '`':
			return place.Fault(w.pos, "%s", operators[c])
		case '$':
			if err := w.dollar(true); err != nil {
				return err
			}
		case '\\':
			w.escapedInDouble()
		default:
			w.keep(c)
		}
	}
	return place.Fault(open, `the quote " is not closed`)
}

func (w *words) escapedInDouble() {
	if n := w.newline(w.pos + 1); n > 0 {
		w.pos += 1 + n
		return
	}
	if w.pos+1 < len(w.src) && strings.IndexByte("$`\"\\", w.src[w.pos+1]) >= 0 {
		w.pos++
	}
	w.keep(w.src[w.pos])
}
