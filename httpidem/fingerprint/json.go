package fingerprint

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonReader reads a JSON text (RFC 8259) in one pass and appends its canonical form to the
// writer's output. The form is that of RFC 8785, but with exact numbers, not rounded to 64 bits.
type jsonReader struct {
	*formWriter
	src   []byte
	pos   int
	depth int
	err   error
}

// member is a member of an object that is being read, as offsets into out. If its segment is empty,
// the member is left out; its key stays until the object ends, to detect duplicate keys.
type member struct{ key, keyEnd, segment, segmentEnd int }

// writeJSON writes a JSON body and reports whether anything of it is kept.
func (w *formWriter) writeJSON(body []byte) (kept bool, err error) {
	if !utf8.Valid(body) {
		return false, fmt.Errorf("%w: the JSON body is not UTF-8", ErrMalformed)
	}
	r := jsonReader{formWriter: w, src: body}
	r.skipSpace()
	kept, ok := r.readValue(w.keepAll, w.paths)
	if ok {
		r.skipSpace()
		if r.pos < len(body) {
			r.setError("something follows the value")
		}
	}
	return kept, r.err
}

// setError stores the first error; its callers only pass on that there is one.
func (r *jsonReader) setError(what string) bool {
	if r.err == nil {
		r.err = malformedError("JSON body", r.pos, what)
	}
	return false
}

func (r *jsonReader) skipSpace() {
	if r.pos < len(r.src) && r.src[r.pos] <= ' ' { // usually there are none; this part is inlined
		r.skipSpaces()
	}
}

func (r *jsonReader) skipSpaces() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// peekByte returns the next byte, or 0 at the end. A 0 byte is never valid in JSON.
func (r *jsonReader) peekByte() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0
}

// readValue reads a value. A value that is not kept is also read and checked, but leaves nothing in
// out. If keep is false, only the fields in it that Only names are kept.
func (r *jsonReader) readValue(keep bool, at *pathNode) (kept, ok bool) {
	start := len(r.out)
	kept = keep
	switch c := r.peekByte(); {
	case c == '{' || c == '[':
		if r.depth++; r.depth > r.maxDepth {
			r.err = fmt.Errorf("%w: the JSON body is nested deeper than %d levels", ErrTooLarge, r.maxDepth)
			return false, false
		}
		if c == '{' {
			kept, ok = r.readObject(keep, at)
		} else {
			kept, ok = r.readArray(keep, at)
		}
		r.depth--
	case c == '"':
		_, ok = r.readString(false)
	case c == '-' || c >= '0' && c <= '9':
		ok = r.readNumber()
	case c == 't':
		ok = r.readWord("true")
	case c == 'f':
		ok = r.readWord("false")
	case c == 'n':
		ok = r.readWord("null")
	case r.pos == len(r.src):
		ok = r.setError("the text ends in the middle")
	default:
		ok = r.setError("no JSON value begins like this")
	}
	if !kept {
		r.out = r.out[:start]
	}
	return kept, ok
}

func (r *jsonReader) readWord(word string) bool {
	if len(r.src)-r.pos < len(word) || string(r.src[r.pos:r.pos+len(word)]) != word {
		return r.setError("no JSON value begins like this")
	}
	r.pos += len(word)
	r.out = append(r.out, word...)
	return true
}

func (r *jsonReader) readArray(keep bool, at *pathNode) (kept, ok bool) {
	kept = keep
	r.out = append(r.out, '[')
	r.pos++
	r.skipSpace()
	if r.peekByte() == ']' {
		r.pos++
		r.out = append(r.out, ']')
		return kept, true
	}
	element := at.elementNode()
	does := element.fieldAction()
	for written := false; ; {
		before := len(r.out)
		if written {
			r.out = append(r.out, ',')
		}
		has, ok := r.readValue(keep || does&actionOnly != 0, element)
		if !ok {
			return false, false
		}
		if has && does&actionIgnore == 0 {
			kept, written = true, true
		} else {
			r.out = r.out[:before]
		}
		r.skipSpace()
		switch r.peekByte() {
		case ']':
			r.pos++
			r.out = append(r.out, ']')
			return kept, true
		case ',':
			r.pos++
			r.skipSpace()
		default:
			return false, r.setError("a comma or the end of an array is missing")
		}
	}
}

func (r *jsonReader) readObject(keep bool, at *pathNode) (kept, ok bool) {
	kept = keep
	first := len(r.members)
	start := len(r.out) + 1
	sorted, whole := true, true // whole: out has exactly the members
	r.out = append(r.out, '{')
	r.pos++
	r.skipSpace()
	for r.peekByte() != '}' || len(r.members) > first {
		if r.peekByte() != '"' {
			return false, r.setError("a key of an object is missing, or has no quotes")
		}
		if len(r.members) > first {
			r.out = append(r.out, ',')
		}
		before := len(r.out)
		m, ok := r.readString(true)
		if !ok {
			return false, false
		}
		whole = whole && m.segment == before
		has, ok := r.memberValue(m, keep, at)
		if !ok {
			return false, false
		}
		if has {
			kept = true
			m.segmentEnd = len(r.out)
		} else {
			whole = false
			m.segmentEnd = m.segment
		}
		if n := len(r.members); n > first && sorted {
			sorted = compareKeys(r.keyText(r.members[n-1]), r.keyText(m)) < 0
		}
		r.members = append(r.members, m)
		r.skipSpace()
		if r.peekByte() == '}' {
			break
		}
		if r.peekByte() != ',' {
			return false, r.setError("a comma or the end of an object is missing")
		}
		r.pos++
		r.skipSpace()
	}
	if !sorted && !r.sortMembers(r.members[first:]) {
		return false, r.setError("a key stands twice in the object that ends here")
	}
	if r.distinct && !r.foldsApart(r.members[first:]) {
		return false, r.setError("two keys of the object that ends here differ only in case")
	}
	r.pos++
	if !sorted || !whole {
		r.joinMembers(start, r.members[first:])
	}
	r.members = r.members[:first]
	r.out = append(r.out, '}')
	return kept, true
}

// memberValue reads what follows a key and reports whether it is kept. The key stays in out either
// way.
func (r *jsonReader) memberValue(m member, keep bool, at *pathNode) (has, ok bool) {
	r.skipSpace()
	if r.peekByte() != ':' {
		return false, r.setError("a colon is missing after a key")
	}
	r.pos++
	r.skipSpace()
	name := r.keyText(m)
	below := at.memberNode(name)
	does := r.actionFor(name) | below.fieldAction()
	end := len(r.out)
	r.out = append(r.out, ':')
	has, ok = r.readValue(keep || does&actionOnly != 0, below)
	if has = has && does&actionIgnore == 0; !has {
		r.out = r.out[:end]
	}
	return has, ok
}

func (r *jsonReader) keyText(m member) []byte { return r.out[m.key:m.keyEnd] }

// sortMembers sorts the members by key and reports whether all keys differ.
func (r *jsonReader) sortMembers(members []member) bool {
	slices.SortFunc(members, func(a, b member) int { return compareKeys(r.keyText(a), r.keyText(b)) })
	for i := 1; i < len(members); i++ {
		if string(r.keyText(members[i-1])) == string(r.keyText(members[i])) {
			return false
		}
	}
	return true
}

// foldsApart reports whether no two keys differ only in case.
func (r *jsonReader) foldsApart(members []member) bool {
	if len(members) < 2 {
		return true
	}
	seen := make(map[string]struct{}, len(members))
	for _, m := range members {
		// upper case first: more letters have one of these (ſ and the sign of Kelvin)
		seen[strings.ToLower(strings.ToUpper(string(r.keyText(m))))] = struct{}{}
	}
	return len(seen) == len(members)
}

// joinMembers writes the segments of the members again, in their order and without the bytes
// between them.
func (r *jsonReader) joinMembers(start int, members []member) {
	b := r.scratch[:0]
	for _, m := range members {
		if m.segment == m.segmentEnd {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, r.out[m.segment:m.segmentEnd]...)
	}
	r.scratch = b
	r.out = append(r.out[:start], b...)
}

// compareKeys orders keys by their UTF-16 units, as RFC 8785 does. In UTF-8 that is the order of
// the bytes, except for characters outside the basic plane (first byte F0 and up): their UTF-16
// units are smaller than E000 (first byte EE and up).
func compareKeys(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if less := x < y; less != (x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0)) {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
