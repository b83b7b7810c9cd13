package fingerprint

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// reader reads a JSON text (RFC 8259) in one pass and appends its canonical form to the writer's
// output. The form is that of RFC 8785, but with exact numbers, not rounded to 64 bits.
type reader struct {
	*writer
	src   []byte
	pos   int
	depth int
	err   error
}

// member is a member of an object that is being read, as offsets into out. If its segment is empty,
// the member is left out; its key stays until the object ends, to detect duplicate keys.
type member struct{ key, keyEnd, segment, segmentEnd int }

// json writes a JSON body and reports whether anything of it is kept.
func (w *writer) json(body []byte) (kept bool, err error) {
	if !utf8.Valid(body) {
		return false, fmt.Errorf("%w: the JSON body is not UTF-8", ErrMalformed)
	}
	r := reader{writer: w, src: body}
	r.space()
	kept, ok := r.value(w.keepAll, w.paths)
	if ok {
		r.space()
		if r.pos < len(body) {
			r.fail("something follows the value")
		}
	}
	return kept, r.err
}

// fail stores the first error; its callers only pass on that there is one.
func (r *reader) fail(what string) bool {
	if r.err == nil {
		r.err = malformed("JSON body", r.pos, what)
	}
	return false
}

func (r *reader) space() {
	if r.pos < len(r.src) && r.src[r.pos] <= ' ' { // usually there are none; this part is inlined
		r.spaces()
	}
}

func (r *reader) spaces() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// next returns the next byte, or 0 at the end. A 0 byte is never valid in JSON.
func (r *reader) next() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0
}

// value reads a value. A value that is not kept is also read and checked, but leaves nothing in
// out. If keep is false, only the fields in it that Only names are kept.
func (r *reader) value(keep bool, at *node) (kept, ok bool) {
	start := len(r.out)
	kept = keep
	switch c := r.next(); {
	case c == '{' || c == '[':
		if r.depth++; r.depth > r.maxDepth {
			r.err = fmt.Errorf("%w: the JSON body is nested deeper than %d levels", ErrTooLarge, r.maxDepth)
			return false, false
		}
		if c == '{' {
			kept, ok = r.object(keep, at)
		} else {
			kept, ok = r.array(keep, at)
		}
		r.depth--
	case c == '"':
		_, ok = r.str(false)
	case c == '-' || c >= '0' && c <= '9':
		ok = r.number()
	case c == 't':
		ok = r.word("true")
	case c == 'f':
		ok = r.word("false")
	case c == 'n':
		ok = r.word("null")
	case r.pos == len(r.src):
		ok = r.fail("the text ends in the middle")
	default:
		ok = r.fail("no JSON value begins like this")
	}
	if !kept {
		r.out = r.out[:start]
	}
	return kept, ok
}

func (r *reader) word(word string) bool {
	if len(r.src)-r.pos < len(word) || string(r.src[r.pos:r.pos+len(word)]) != word {
		return r.fail("no JSON value begins like this")
	}
	r.pos += len(word)
	r.out = append(r.out, word...)
	return true
}

func (r *reader) array(keep bool, at *node) (kept, ok bool) {
	kept = keep
	r.out = append(r.out, '[')
	r.pos++
	r.space()
	if r.next() == ']' {
		r.pos++
		r.out = append(r.out, ']')
		return kept, true
	}
	element := at.each()
	does := element.action()
	for written := false; ; {
		before := len(r.out)
		if written {
			r.out = append(r.out, ',')
		}
		has, ok := r.value(keep || does&only != 0, element)
		if !ok {
			return false, false
		}
		if has && does&ignore == 0 {
			kept, written = true, true
		} else {
			r.out = r.out[:before]
		}
		r.space()
		switch r.next() {
		case ']':
			r.pos++
			r.out = append(r.out, ']')
			return kept, true
		case ',':
			r.pos++
			r.space()
		default:
			return false, r.fail("a comma or the end of an array is missing")
		}
	}
}

func (r *reader) object(keep bool, at *node) (kept, ok bool) {
	kept = keep
	first := len(r.members)
	start := len(r.out) + 1
	sorted, whole := true, true // whole: out has exactly the members
	r.out = append(r.out, '{')
	r.pos++
	r.space()
	for r.next() != '}' || len(r.members) > first {
		if r.next() != '"' {
			return false, r.fail("a key of an object is missing, or has no quotes")
		}
		if len(r.members) > first {
			r.out = append(r.out, ',')
		}
		before := len(r.out)
		m, ok := r.str(true)
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
			sorted = compare(r.key(r.members[n-1]), r.key(m)) < 0
		}
		r.members = append(r.members, m)
		r.space()
		if r.next() == '}' {
			break
		}
		if r.next() != ',' {
			return false, r.fail("a comma or the end of an object is missing")
		}
		r.pos++
		r.space()
	}
	if !sorted && !r.sort(r.members[first:]) {
		return false, r.fail("a key stands twice in the object that ends here")
	}
	if r.distinct && !r.foldsApart(r.members[first:]) {
		return false, r.fail("two keys of the object that ends here differ only in case")
	}
	r.pos++
	if !sorted || !whole {
		r.join(start, r.members[first:])
	}
	r.members = r.members[:first]
	r.out = append(r.out, '}')
	return kept, true
}

// memberValue reads what follows a key and reports whether it is kept. The key stays in out either
// way.
func (r *reader) memberValue(m member, keep bool, at *node) (has, ok bool) {
	r.space()
	if r.next() != ':' {
		return false, r.fail("a colon is missing behind a key")
	}
	r.pos++
	r.space()
	name := r.key(m)
	below := at.member(name)
	does := r.named(name) | below.action()
	end := len(r.out)
	r.out = append(r.out, ':')
	has, ok = r.value(keep || does&only != 0, below)
	if has = has && does&ignore == 0; !has {
		r.out = r.out[:end]
	}
	return has, ok
}

func (r *reader) key(m member) []byte { return r.out[m.key:m.keyEnd] }

// sort sorts the members by key and reports whether all keys differ.
func (r *reader) sort(members []member) bool {
	slices.SortFunc(members, func(a, b member) int { return compare(r.key(a), r.key(b)) })
	for i := 1; i < len(members); i++ {
		if string(r.key(members[i-1])) == string(r.key(members[i])) {
			return false
		}
	}
	return true
}

// foldsApart reports whether no two keys differ only in case.
func (r *reader) foldsApart(members []member) bool {
	if len(members) < 2 {
		return true
	}
	seen := make(map[string]struct{}, len(members))
	for _, m := range members {
		// upper case first: more letters have one of these (ſ and the sign of Kelvin)
		seen[strings.ToLower(strings.ToUpper(string(r.key(m))))] = struct{}{}
	}
	return len(seen) == len(members)
}

// join writes the segments of the members again, in their order and without the bytes between them.
func (r *reader) join(start int, members []member) {
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

// compare orders keys by their UTF-16 units, as RFC 8785 does. In UTF-8 that is the order of the
// bytes, except for characters outside the basic plane (first byte F0 and up): their UTF-16 units
// are smaller than E000 (first byte EE and up).
func compare(a, b []byte) int {
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
