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
	value = strings.Trim(value, " \t")
	return textproto.CanonicalMIMEHeaderKey(name), value, rest, IsValue(value)
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
