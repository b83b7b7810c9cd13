package fingerprint

import (
	"unicode/utf16"
	"unicode/utf8"
)

// readString reads a string and writes it in quotes with as few escapes as possible. For a key, the
// decoded text is between key and keyEnd of the returned member. If it differs from the text
// between the quotes, it is in out before the segment.
func (r *jsonReader) readString(isKey bool) (member, bool) {
	start, i := len(r.out), r.pos+1
	for i < len(r.src) && !specialBytes[r.src[i]] {
		i++
	}
	if i == len(r.src) || r.src[i] != '"' {
		return r.readEscaped(i, isKey)
	}
	r.out = append(r.out, r.src[r.pos:i+1]...)
	r.pos = i + 1
	return member{key: start + 1, keyEnd: len(r.out) - 1, segment: start}, true
}

// specialBytes are the bytes that have a meaning in a string or are not allowed in it. A table
// needs one lookup for each byte.
var specialBytes = func() (t [256]bool) {
	for c := range ' ' {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// readEscaped reads the rest of a string from i on; there is no quote before i.
func (r *jsonReader) readEscaped(i int, isKey bool) (member, bool) {
	start := len(r.out)
	r.out = append(r.out, r.src[r.pos:i]...) // including the opening quote
	r.pos = i
	quote := false
	for {
		if r.pos == len(r.src) {
			return member{}, r.setError("a string has no end")
		}
		c := r.src[r.pos]
		if c == '"' {
			r.pos++
			break
		}
		if c < ' ' {
			return member{}, r.setError("a control character in a string has to be escaped")
		}
		if c != '\\' {
			r.out = append(r.out, c)
			r.pos++
			continue
		}
		char, ok := r.readEscape()
		if !ok {
			return member{}, false
		}
		quote = quote || char < ' ' || char == '"' || char == '\\'
		r.out = utf8.AppendRune(r.out, char)
	}
	end := len(r.out)
	if !quote {
		r.out = append(r.out, '"')
		return member{key: start + 1, keyEnd: end, segment: start}, true
	}
	r.appendQuoted(start+1, end)
	if isKey {
		return member{key: start + 1, keyEnd: end, segment: end}, true
	}
	r.out = append(r.out[:start], r.out[end:]...)
	return member{}, true
}

// readEscape reads one escape, or both escapes of a surrogate pair.
func (r *jsonReader) readEscape() (rune, bool) {
	r.pos++
	c := r.peekByte()
	r.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		char, ok := r.readHex4()
		if !ok || !utf16.IsSurrogate(char) {
			return char, ok
		}
		if r.pos+1 < len(r.src) && r.src[r.pos] == '\\' && r.src[r.pos+1] == 'u' {
			r.pos += 2
			low, ok := r.readHex4()
			if !ok {
				return 0, false
			}
			if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
				return char, true
			}
		}
		return 0, r.setError("half of a surrogate pair stands alone")
	}
	r.pos = min(r.pos, len(r.src))
	return 0, r.setError("an escape in a string is none that JSON has")
}

func (r *jsonReader) readHex4() (rune, bool) {
	var char rune
	for range 4 {
		c := r.peekByte()
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, r.setError("\\u is not followed by four hex digits")
		}
		char = char<<4 | rune(c)
		r.pos++
	}
	return char, true
}

// appendQuoted appends the text in out from start to end as a JSON string.
func (r *jsonReader) appendQuoted(start, end int) {
	const hex = "0123456789abcdef"
	b := append(r.out, '"')
	for _, c := range r.out[start:end] {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case c == '\b':
			b = append(b, '\\', 'b')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\f':
			b = append(b, '\\', 'f')
		case c == '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	r.out = append(b, '"')
}
