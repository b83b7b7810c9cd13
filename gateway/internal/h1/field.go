package h1

import (
	"net/http"
	"net/textproto"
	"strings"
)

// ReadField parses the line at the start of s, and returns what follows it. The name is in
// canonical form. ok is false if the line is no field that can be read in one way only.
func ReadField(s string) (name, value, rest string, ok bool) {
	line, rest, _ := strings.Cut(s, "\r\n")
	name, value, ok = strings.Cut(line, ":")
	if !ok || !IsName(name) {
		return "", "", "", false
	}
	value = trim(value)
	return canonical(name), value, rest, IsValue(value)
}

// canonical is textproto.CanonicalMIMEHeaderKey for the name of a field, and quick for those that
// are in canonical form, as most are.
func canonical(name string) string {
	upper := true // the next letter
	for i := range len(name) {
		c := name[i]
		if upper && 'a' <= c && c <= 'z' || !upper && 'A' <= c && c <= 'Z' {
			return textproto.CanonicalMIMEHeaderKey(name)
		}
		upper = c == '-'
	}
	return name
}

// trim removes spaces and tabs from both ends. It is strings.Trim, without what that does for
// sets in general.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// AddField adds a field line to h. It puts the first value of a name into values, which must have
// room for it, and returns values.
func AddField(h http.Header, name, value string, values []string) []string {
	if before, is := h[name]; is {
		h[name] = append(before, value)
		return values
	}
	n := len(values)
	values = append(values, value)
	h[name] = values[n : n+1 : n+1]
	return values
}

// BodyAllowed reports whether an answer with a status has a body.
func BodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
