package input

import (
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/check/internal/place"
)

// readDollar reads $'…', $"…", $NAME and ${NAME}.
func (w *wordReader) readDollar(quoted bool) error {
	at, rest := w.pos, w.src[w.pos+1:]
	switch {
	case !quoted && strings.HasPrefix(rest, "'"):
		w.beginWord()
		w.pos += 2
		return w.readANSIQuoted(at)
	case !quoted && strings.HasPrefix(rest, `"`):
		w.beginWord()
		w.pos++
		return w.readDoubleQuoted()
	case strings.HasPrefix(rest, "("):
		return place.Fault(at, "$( runs a command; put its output there")
	case strings.HasPrefix(rest, "{"):
		name, _, closed := strings.Cut(rest[1:], "}")
		if !closed || name == "" || nameLength(name) != len(name) {
			return place.Fault(at, "only variables such as ${NAME} are known; a $ of a text needs single quotes")
		}
		return w.readVariable(name, len(name)+3)
	case rest != "" && strings.IndexByte("0123456789$!?#*@-", rest[0]) >= 0:
		return place.Fault(at, "a shell reads $%c as a variable of its own; put the text in single quotes", rest[0])
	}
	if n := nameLength(rest); n > 0 {
		return w.readVariable(rest[:n], n+1)
	}
	w.addByte('$')
	return nil
}

// nameLength returns how long the variable's name is with which text starts.
func nameLength(text string) int {
	n := 0
	for n < len(text) {
		c := text[n]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (n == 0 || c < '0' || c > '9') {
			break
		}
		n++
	}
	return n
}

func (w *wordReader) readVariable(name string, length int) error {
	at := w.pos
	w.beginWord()
	w.pos += length
	value, ok := "", false
	if w.lookup != nil {
		value, ok = w.lookup(name)
	}
	if !ok {
		return place.Fault(at, "the variable $%s is not set; set it, or put the value there", name)
	}
	w.word.WriteString(value)
	return nil
}

// letters are the escapes of $'…' with one letter.
var letterEscapes = map[byte]byte{
	'a': '\a', 'b': '\b', 'e': 0x1b, 'E': 0x1b, 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// digitEscapes are the escapes of $'…' with digits: their base and how many they have at most.
var digitEscapes = map[byte]struct{ base, most int }{'x': {16, 2}, 'u': {16, 4}, 'U': {16, 8}}

// readANSIQuoted reads the rest of a $'…' that starts at open.
func (w *wordReader) readANSIQuoted(open int) error {
	for w.pos < len(w.src) {
		c := w.src[w.pos]
		if c == '\'' {
			w.pos++
			return nil
		}
		if c != '\\' || w.pos+1 == len(w.src) {
			w.addByte(c)
			continue
		}
		at, next := w.pos, w.src[w.pos+1]
		to, letter := letterEscapes[next]
		d, digits := digitEscapes[next]
		switch {
		case letter:
			w.word.WriteByte(to)
			w.pos += 2
		case next >= '0' && next <= '7':
			w.pos++
			w.readNumberEscape(8, 3, false)
		case digits && w.pos+2 < len(w.src) && isHexDigit(w.src[w.pos+2]):
			w.pos += 2
			w.readNumberEscape(d.base, d.most, next != 'x')
		case next == 'c':
			return place.Fault(at, `\c is not known; write the character as \x and its number`)
		default:
			w.addByte(c)
		}
		if strings.HasSuffix(w.word.String(), "\x00") {
			return place.Fault(at, "a word of a shell cannot have the character 0")
		}
	}
	return place.Fault(open, "the quote $' is not closed")
}

// readNumberEscape reads digits and adds the byte or the character that they are.
func (w *wordReader) readNumberEscape(base, most int, character bool) {
	end := w.pos
	for end < len(w.src) && end < w.pos+most && (base == 16 && isHexDigit(w.src[end]) || w.src[end] >= '0' && w.src[end] <= '7') {
		end++
	}
	n, _ := strconv.ParseUint(w.src[w.pos:end], base, 64)
	w.pos = end
	if character {
		w.word.WriteRune(rune(n)) //nolint:gosec // eight digits at most; a number that is no character becomes U+FFFD
		return
	}
	w.word.WriteByte(byte(n)) //nolint:gosec // the shell keeps eight bits as well
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
