package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// frontWriter is the [http.ResponseWriter] of the front. It sends an answer that is not flushed in
// one write, with its length. A larger or flushed answer without a length is sent in chunks, with
// trailers.
type frontWriter struct {
	x       *frontConn
	header  http.Header
	head    []byte // made by WriteHeader, without what the handler sets later
	held    []byte // buffered part of the body
	status  int    // 0: not set yet
	length  int64  // the handler's Content-Length; -1: none
	size    int64  // written by the handler
	sent    bool   // the head has been sent
	chunked bool
	last    bool // the connection ends with this answer
	failed  bool // the client has gone
	over    bool // the handler has returned
}

// frontHeld is how much of an answer is buffered before it is sent in parts, in bytes.
const frontHeld = 64 << 10

// frontKept is how much buffer memory for answers a connection keeps between requests, in bytes.
const frontKept = 8 << 10

var errClientGone = errors.New("the client is gone")

func newFrontWriter(x *frontConn) *frontWriter {
	return &frontWriter{x: x, header: make(http.Header, 8), length: -1, head: x.head[:0], held: x.body[:0]}
}

// Header implements [http.ResponseWriter].
func (w *frontWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *frontWriter) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("a status of %d", status)) // as net/http does
	case w.status != 0 || w.over || status == http.StatusSwitchingProtocols:
		// 101: the request did not ask for it
	case status < 200:
		w.emit(append(w.fields(statusLine(nil, status)), "\r\n"...))
	default:
		w.status = status
		if lines := w.header["Content-Length"]; len(lines) == 1 && bodyAllowed(status) {
			if n, err := strconv.ParseInt(lines[0], 10, 64); err == nil && n >= 0 {
				w.length = n
			}
		}
		w.last = slices.ContainsFunc(w.header["Connection"], func(v string) bool { return strings.EqualFold(v, "close") })
		w.head = w.fields(statusLine(w.head, status))
	}
}

// Write implements [http.ResponseWriter].
func (w *frontWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.over, w.failed:
		return 0, errClientGone
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	}
	if w.size += int64(len(p)); w.length >= 0 && w.size > w.length {
		return 0, http.ErrContentLength
	}
	if !w.sent && len(w.held)+len(p) <= frontHeld {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	if !w.sent {
		w.sniff(append(w.held[:len(w.held):len(w.held)], p[:min(len(p), 512)]...))
		w.flush()
	}
	if w.part(p); w.failed {
		return 0, errClientGone
	}
	return len(p), nil
}

// sniff sets the content type of a body that begins with p, if it is not set.
func (w *frontWriter) sniff(p []byte) {
	if _, set := w.header["Content-Type"]; !set && len(p) > 0 && w.header.Get("Content-Encoding") == "" {
		w.head = appendField(w.head, "Content-Type", http.DetectContentType(p))
	}
}

// Flush implements [http.Flusher].
func (w *frontWriter) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *frontWriter) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.over && !w.sent {
		w.sniff(w.held)
		w.flush()
	}
	if w.over || w.failed {
		return errClientGone
	}
	return nil
}

// SetWriteDeadline is for [http.ResponseController]. The deadline is accurate to a second.
func (w *frontWriter) SetWriteDeadline(t time.Time) error {
	switch {
	case w.over:
	case t.IsZero():
		w.x.deadline.Store(0)
	default:
		w.x.deadline.Store(t.UnixNano())
	}
	return nil
}

// SetReadDeadline is for [http.ResponseController]. It does nothing: the body has been read
// already.
func (*frontWriter) SetReadDeadline(time.Time) error { return nil }

// flush sends the head, if it has not been sent, and the buffered body: in chunks, unless the
// handler has set a length.
func (w *frontWriter) flush() {
	w.chunked = bodyAllowed(w.status) && w.length < 0
	w.sendHead()
	w.part(w.held)
	w.held = w.held[:0]
}

// sendHead sends the head, followed by body.
func (w *frontWriter) sendHead(body ...byte) {
	w.sent = true
	if w.chunked {
		w.head = append(w.head, "Transfer-Encoding: chunked\r\n"...)
	}
	if _, set := w.header["Date"]; !set {
		w.head = append(time.Now().UTC().AppendFormat(append(w.head, "Date: "...), http.TimeFormat), "\r\n"...)
	}
	if !w.last && w.x.front.closing.Load() {
		w.last = true
		w.head = append(w.head, "Connection: close\r\n"...)
	}
	w.head = append(append(w.head, "\r\n"...), body...)
	w.emit(w.head)
}

// part sends a piece of the body.
func (w *frontWriter) part(p []byte) {
	switch {
	case len(p) == 0:
	case w.chunked:
		b := append(strconv.AppendInt(make([]byte, 0, len(p)+16), int64(len(p)), 16), "\r\n"...)
		w.emit(append(append(b, p...), "\r\n"...))
	default:
		w.emit(p)
	}
}

// end sends the rest. It returns false if the connection cannot be reused.
func (w *frontWriter) end() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	trailer := w.trailer()
	if !w.sent {
		w.sniff(w.held)
		if len(trailer) > 0 || len(w.header["Trailer"]) > 0 {
			w.flush()
		}
	}
	switch {
	case !w.sent:
		if w.length < 0 && bodyAllowed(w.status) {
			w.head = append(strconv.AppendInt(append(w.head, "Content-Length: "...), w.size, 10), "\r\n"...)
		}
		w.sendHead(w.held...)
	case w.chunked:
		w.emit(append(append([]byte("0\r\n"), trailer...), "\r\n"...))
	}
	if cap(w.head)+cap(w.held) <= frontKept {
		w.x.head, w.x.body = w.head, w.held
	}
	whole := w.length < 0 || w.size == w.length || !bodyAllowed(w.status)
	return whole && !w.failed && !w.last
}

// framing are fields that cannot be trailers, whatever a handler says.
var framing = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

// trailer returns the fields after the body: those that were announced, and those with the trailer
// prefix.
func (w *frontWriter) trailer() (b []byte) {
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

func (w *frontWriter) emit(b []byte) {
	if w.failed {
		return
	}
	if _, err := w.x.conn.Write(b); err != nil {
		w.failed = true
	}
}

func statusLine(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	return append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
}

// fields appends the current fields of the head, without trailers and the fields that the front
// sets itself.
func (w *frontWriter) fields(b []byte) []byte {
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
func (w *frontWriter) announced(name string) bool {
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
	if name == "" || !ofName.has(name) {
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

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
