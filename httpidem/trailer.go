package httpidem

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// trailer returns the fields that the handler has set after its head, under names that it announced
// or with [http.TrailerPrefix].
func (c *capture) trailer() http.Header {
	var t http.Header
	set := func(name string, values []string) {
		if t == nil {
			t = http.Header{}
		}
		t[name] = values
	}
	for _, line := range c.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if v, ok := c.header[name]; ok && !notStored[name] {
				set(name, v)
			}
		}
	}
	for name, v := range c.header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && !notStored[http.CanonicalHeaderKey(trailer)] {
			set(name, v)
		}
	}
	return t
}

// keepTrailer adds the trailers to the stored head.
func (c *capture) keepTrailer() {
	head := appendTrailer(c.head.b, c.trailer(), c.m.o.Answer.KeepCookies)
	if len(head) > maxHead {
		copy(c.head.b[len(c.head.b)-2:], "\r\n") // the trailers may have been written over its end
		c.cut = true
		return
	}
	c.head.b = head
}

// appendTrailer appends the trailers to a head, as its last fields: "Trailer: X-Sum: 4". Nothing
// else is stored under that name.
func appendTrailer(head []byte, trailer http.Header, cookies bool) []byte {
	if len(trailer) == 0 {
		return head
	}
	b := head[:len(head)-len("\r\n")]
	for _, name := range slices.Sorted(maps.Keys(trailer)) {
		proper := http.CanonicalHeaderKey(strings.TrimPrefix(name, http.TrailerPrefix))
		if notStored[proper] || !cookies && proper == "Set-Cookie" || !IsToken(proper) {
			continue
		}
		for _, v := range trailer[name] {
			b = append(append(append(b, storedTrailer...), proper...), ": "...)
			b = append(appendFieldValue(b, v), "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// storedTrailer begins the line of a trailer in a stored head.
const storedTrailer = "Trailer: "

// addTrailer adds "X-Sum: 4".
func (m *message) addTrailer(line string) {
	name, value, ok := strings.Cut(line, ": ")
	name = http.CanonicalHeaderKey(name)
	if !ok || !IsToken(name) || notStored[name] {
		return
	}
	if m.trailer == nil {
		m.trailer = http.Header{}
	}
	m.trailer[name] = append(m.trailer[name], value)
}
