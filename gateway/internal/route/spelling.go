package route

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// bypassesGuard reports whether some services read the path of a request as that of a guarded route
// other than found. found is the route that the path matches literally, and comes after the guarded
// one. The lenientSegments differ in case, in what follows a semicolon, in dots and spaces at the
// end of a segment, in control characters, in encoded slashes, or in an extension (/votes.json). A
// client could bypass the guard with such a path. A route that names the path literally takes
// precedence.
func (t *Table[T]) bypassesGuard(method, p string, segments []string, found *Entry[T]) bool {
	if found.Pattern != nil && found.Pattern.isLiteral() {
		return false
	}
	if strings.ContainsAny(p, ";? .%\\") || strings.ContainsFunc(p, isControl) {
		if read := lenientSegments(p); !slices.Equal(read, segments) {
			there := t.firstEntry(method, func(e *Entry[T]) bool { return e.Pattern.matchesBy(read, e.sameLetters) })
			if there != found && there.Guards {
				return true
			}
			segments = read
		}
	}
	bare := withoutExtension(segments)
	for _, e := range t.entries {
		if e == found {
			return false
		}
		if e.Guards && e.servesMethod(method) && e.mayBeReadAs(segments, bare) {
			return true
		}
	}
	return false
}

// mayBeReadAs reports whether a lenient service may read segments as a path of the route. bare are
// the segments without an extension; nil: they have none.
func (e *Entry[T]) mayBeReadAs(segments, bare []string) bool {
	return e.Pattern.matchesBy(segments, e.sameLetters) ||
		bare != nil && !e.ExactExtension && e.Pattern.matchesBy(bare, e.sameLetters)
}

// withoutExtension returns segments without the extension of the last one, which many services
// (Rails, Django REST and others) take for the format of the answer. It returns nil if there is
// none.
func withoutExtension(segments []string) []string {
	if len(segments) == 0 {
		return nil
	}
	last := segments[len(segments)-1]
	name := extension.ReplaceAllString(last, "")
	if name == last || name == "" {
		return nil
	}
	return append(slices.Clone(segments[:len(segments)-1]), name)
}

var extension = regexp.MustCompile(`\.[0-9A-Za-z]{1,8}$`)

// sameLetters compares segments as a lenient service may.
func (e *Entry[T]) sameLetters(a, b string) bool {
	if e.ExactCase {
		return a == b
	}
	return strings.EqualFold(a, b)
}

// lenientSegments returns the segments of a path as a lenient service may read them.
func lenientSegments(p string) []string {
	p = encodedByte.ReplaceAllStringFunc(p, func(s string) string { // decode what was encoded twice
		plain, _ := url.PathUnescape(s) // these always decode
		return plain
	})
	parts := strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")
	for i, s := range parts {
		if at := strings.IndexAny(s, ";?"); at >= 0 { // a question mark that was encoded
			s = s[:at]
		}
		if at := strings.IndexFunc(s, isControl); at >= 0 {
			s = s[:at]
		}
		if strings.Trim(s, ".") != "" { // path.Clean handles . and ..
			s = strings.TrimRight(s, ". ")
		}
		parts[i] = s
	}
	return splitPath(strings.Join(parts, "/"))
}

var encodedByte = regexp.MustCompile("%[0-9A-Fa-f]{2}")

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
