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

// wordReader splits a command as bash does, and says what it does not know. No library that we
// found gives places, reads $'…' and bounds its depth.
type wordReader struct {
	src    string
	pos    int
	lookup func(string) (string, bool)
	word   strings.Builder
	inWord bool // a word has begun, perhaps an empty one
	start  int
	out    []word
}

// splitWords returns the words of the first command of src. A pipe ends it.
func splitWords(src string, lookup func(string) (string, bool)) ([]word, error) {
	w := &wordReader{src: src, lookup: lookup}
	for w.pos < len(w.src) {
		ended, err := w.readPiece()
		if err != nil {
			return nil, err
		}
		if ended {
			break
		}
	}
	w.endWord()
	return w.out, nil
}

// operators are what a shell reads as more than a part of a word.
var shellOperators = map[byte]string{
	'&': "& ends the command; put the URL in quotes",
	'<': "< reads a file; use -d @FILE",
	'>': "> writes to a file; leave it out",
	'(': "( starts a shell of its own; put the word in quotes",
	')': ") ends a shell of its own; put the word in quotes",
	'`': "` runs a command; put its output there",
}

// readPiece reads one piece of the text. It reports whether the command has ended.
func (w *wordReader) readPiece() (ended bool, err error) {
	c := w.src[w.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		w.endWord()
		w.pos++
	case c == '\n':
		w.endWord()
		w.pos++
		return w.endCommand("")
	case c == ';':
		w.endWord()
		w.pos++
		return w.endCommand("; ends the command; put the word before it in quotes")
	case c == '|':
		return true, nil
	case c == '#' && !w.inWord:
		w.skipComment()
	case c == '\\':
		w.readEscape()
	case c == '\'':
		return false, w.readSingleQuoted()
	case c == '"':
		return false, w.readDoubleQuoted()
	case c == '$':
		return false, w.readDollar(false)
	case shellOperators[c] != "":
		return false, place.Fault(w.pos, "%s", shellOperators[c])
	default:
		w.addByte(c)
	}
	return false, nil
}

// endCommand ends the command after a line or a semicolon. Only comments may follow.
func (w *wordReader) endCommand(advice string) (ended bool, err error) {
	if len(w.out) == 0 {
		return false, nil
	}
	for w.pos < len(w.src) {
		switch c := w.src[w.pos]; {
		case c == '#':
			w.skipComment()
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

func (w *wordReader) skipComment() {
	for w.pos < len(w.src) && w.src[w.pos] != '\n' {
		w.pos++
	}
}

func (w *wordReader) beginWord() {
	if !w.inWord {
		w.inWord, w.start = true, w.pos
	}
}

// addByte adds one byte as it is.
func (w *wordReader) addByte(c byte) {
	w.beginWord()
	w.word.WriteByte(c)
	w.pos++
}

// endWord ends the word, if one has begun.
func (w *wordReader) endWord() {
	if w.inWord {
		w.out = append(w.out, word{w.word.String(), w.start})
	}
	w.inWord = false
	w.word.Reset()
}

// newlineLength returns how many bytes of a line's end are at offset i.
func (w *wordReader) newlineLength(i int) int {
	switch {
	case strings.HasPrefix(w.src[i:], "\n"):
		return 1
	case strings.HasPrefix(w.src[i:], "\r\n"):
		return 2
	}
	return 0
}

// readEscape reads a backslash outside of quotes.
func (w *wordReader) readEscape() {
	if n := w.newlineLength(w.pos + 1); n > 0 {
		w.pos += 1 + n
		return
	}
	w.beginWord()
	w.pos++
	if w.pos < len(w.src) {
		w.addByte(w.src[w.pos])
	}
}

func (w *wordReader) readSingleQuoted() error {
	w.beginWord()
	text, _, closed := strings.Cut(w.src[w.pos+1:], "'")
	if !closed {
		return place.Fault(w.pos, "the quote ' is not closed")
	}
	w.word.WriteString(text)
	w.pos += len(text) + 2
	return nil
}

func (w *wordReader) readDoubleQuoted() error {
	w.beginWord()
	open := w.pos
	w.pos++
	for w.pos < len(w.src) {
		switch c := w.src[w.pos]; c {
		case '"':
			w.pos++
			return nil
		case '`':
			return place.Fault(w.pos, "%s", shellOperators[c])
		case '$':
			if err := w.readDollar(true); err != nil {
				return err
			}
		case '\\':
			w.readDoubleEscape()
		default:
			w.addByte(c)
		}
	}
	return place.Fault(open, `the quote " is not closed`)
}

func (w *wordReader) readDoubleEscape() {
	if n := w.newlineLength(w.pos + 1); n > 0 {
		w.pos += 1 + n
		return
	}
	if w.pos+1 < len(w.src) && strings.IndexByte("$`\"\\", w.src[w.pos+1]) >= 0 {
		w.pos++
	}
	w.addByte(w.src[w.pos])
}
