package h1server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

// framing are fields that cannot be trailers, whatever a handler says.
var framing = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

// trailer returns the fields after the body: those that were announced, and those with the trailer
// prefix.
func (w *response) trailer() (b []byte) {
	for _, line := range w.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); !framing[name] {
				b = appendField(b, name, w.header[name]...)
			}
		}
	}
	for name, values := range w.header {
		if name, is := strings.CutPrefix(name, http.TrailerPrefix); is && !framing[name] {
			b = appendField(b, name, values...)
		}
	}
	return b
}

func statusLine(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	return append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
}

// fields appends the current fields of the head, without trailers and the fields that the fast path
// sets itself.
func (w *response) fields(b []byte) []byte {
	for name, values := range w.header {
		switch {
		case name == "Transfer-Encoding", name == "Content-Length" && w.length < 0, strings.HasPrefix(name, http.TrailerPrefix), w.announced(name):
		default:
			b = appendField(b, name, values...)
		}
	}
	return b
}

// announced reports whether a field is a trailer.
func (w *response) announced(name string) bool {
	for _, line := range w.header["Trailer"] {
		for t := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(t)) == name && !framing[name] {
				return true
			}
		}
	}
	return false
}

// appendField appends the lines of a field, with line breaks in values replaced by spaces.
func appendField(b []byte, name string, values ...string) []byte {
	if !h1.IsName(name) {
		return b
	}
	for _, v := range values {
		b = append(append(b, name...), ": "...)
		at := len(b)
		b = append(b, v...)
		for i := at; i < len(b); i++ {
			if b[i] == '\r' || b[i] == '\n' {
				b[i] = ' '
			}
		}
		b = append(b, "\r\n"...)
	}
	return b
}
