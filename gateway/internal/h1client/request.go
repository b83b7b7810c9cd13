package h1client

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// copiedBody is the largest body that is copied to save a write, in bytes.
const copiedBody = 16 << 10

var sendBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Request is the head of a request as it is sent.
type Request struct {
	Method, Target, Host string
	// Fields calls give for each field line. Host and Content-Length are set otherwise.
	Fields func(give func(name, value string))
}

// HeadOf returns the head of a request of net/http.
func HeadOf(out *http.Request) *Request {
	return &Request{out.Method, out.URL.RequestURI(), cmp.Or(out.Host, out.URL.Host), func(give func(name, value string)) {
		for name, values := range out.Header {
			for _, v := range values {
				give(name, v)
			}
		}
	}}
}

// breaks reports whether s has a line break.
func breaks(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0
}

// append appends the head of a request whose body has a length. It omits fields with line breaks; a
// client's fields have none.
func (m *Request) append(b []byte, length int) []byte {
	b = append(append(b, m.Method...), ' ')
	b = append(append(b, m.Target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, m.Host...), "\r\n"...)
	m.Fields(func(name, value string) {
		switch {
		case name == "Content-Length", name == "Host", name == "User-Agent" && value == "":
		case breaks(name), breaks(value):
		default:
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	})
	return append(strconv.AppendInt(append(b, "Content-Length: "...), int64(length), 10), "\r\n\r\n"...)
}
