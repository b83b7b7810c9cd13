package h1server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

// response is the [http.ResponseWriter] of the fast path. It sends an answer that is not flushed in
// one write, with its length. A larger or flushed answer without a length is sent in chunks, with
// trailers.
type response struct {
	conn    *conn
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

// mostHeld is how much of an answer is buffered before it is sent in parts, in bytes.
const mostHeld = 64 << 10

// mostKept is how much buffer memory for answers a connection keeps between requests, in bytes.
const mostKept = 8 << 10

var errClientGone = errors.New("the client is gone")

func newResponse(c *conn) *response {
	return &response{conn: c, header: make(http.Header, 8), length: -1, head: c.head[:0], held: c.body[:0]}
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("a status of %d", status)) // as net/http does
	case w.status != 0 || w.over || status == http.StatusSwitchingProtocols:
		// 101: the request did not ask for it
	case status < 200:
		w.emit(append(w.fields(statusLine(nil, status)), "\r\n"...))
	default:
		w.status = status
		if lines := w.header["Content-Length"]; len(lines) == 1 && h1.BodyAllowed(status) {
			if n, err := strconv.ParseInt(lines[0], 10, 64); err == nil && n >= 0 {
				w.length = n
			}
		}
		w.last = slices.ContainsFunc(w.header["Connection"], func(v string) bool { return strings.EqualFold(v, "close") })
		w.head = w.fields(statusLine(w.head, status))
	}
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.over, w.failed:
		return 0, errClientGone
	case !h1.BodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	}
	if w.size += int64(len(p)); w.length >= 0 && w.size > w.length {
		return 0, http.ErrContentLength
	}
	if !w.sent && len(w.held)+len(p) <= mostHeld {
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
func (w *response) sniff(p []byte) {
	if _, set := w.header["Content-Type"]; !set && len(p) > 0 && w.header.Get("Content-Encoding") == "" {
		w.head = appendField(w.head, "Content-Type", http.DetectContentType(p))
	}
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *response) FlushError() error {
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
func (w *response) SetWriteDeadline(t time.Time) error {
	switch {
	case w.over:
	case t.IsZero():
		w.conn.deadline.Store(0)
	default:
		w.conn.deadline.Store(t.UnixNano())
	}
	return nil
}

// SetReadDeadline is for [http.ResponseController]. It does nothing: the body has been read
// already.
func (*response) SetReadDeadline(time.Time) error { return nil }

// flush sends the head, if it has not been sent, and the buffered body: in chunks, unless the
// handler has set a length.
func (w *response) flush() {
	w.chunked = h1.BodyAllowed(w.status) && w.length < 0
	w.sendHead()
	w.part(w.held)
	w.held = w.held[:0]
}

// sendHead sends the head, followed by body.
func (w *response) sendHead(body ...byte) {
	w.sent = true
	if w.chunked {
		w.head = append(w.head, "Transfer-Encoding: chunked\r\n"...)
	}
	if _, set := w.header["Date"]; !set {
		w.head = append(time.Now().UTC().AppendFormat(append(w.head, "Date: "...), http.TimeFormat), "\r\n"...)
	}
	if !w.last && w.conn.fastPath.closing.Load() {
		w.last = true
		w.head = append(w.head, "Connection: close\r\n"...)
	}
	w.head = append(append(w.head, "\r\n"...), body...)
	w.emit(w.head)
}

// part sends a piece of the body.
func (w *response) part(p []byte) {
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
func (w *response) end() bool {
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
		if w.length < 0 && h1.BodyAllowed(w.status) {
			w.head = append(strconv.AppendInt(append(w.head, "Content-Length: "...), w.size, 10), "\r\n"...)
		}
		w.sendHead(w.held...)
	case w.chunked:
		w.emit(append(append([]byte("0\r\n"), trailer...), "\r\n"...))
	}
	if cap(w.head)+cap(w.held) <= mostKept {
		w.conn.head, w.conn.body = w.head, w.held
	}
	whole := w.length < 0 || w.size == w.length || !h1.BodyAllowed(w.status)
	return whole && !w.failed && !w.last
}

func (w *response) emit(b []byte) {
	if w.failed {
		return
	}
	if _, err := w.conn.net.Write(b); err != nil {
		w.failed = true
	}
}
