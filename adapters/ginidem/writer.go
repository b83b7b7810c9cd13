package ginidem

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// outer adapts gin's writer to the guard. Gin's own holds a status back until something is written,
// and treats an informational status as the final one.
type outer struct{ gin.ResponseWriter }

// WriteHeader sends the status at once.
func (o *outer) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		if below, ok := o.ResponseWriter.(interface{ Unwrap() http.ResponseWriter }); ok {
			below.Unwrap().WriteHeader(status)
		}
		return
	}
	o.ResponseWriter.WriteHeader(status)
	o.WriteHeaderNow()
}

// Unwrap is for http.ResponseController.
func (o *outer) Unwrap() http.ResponseWriter { return o.ResponseWriter }

const nothing = -1 // the size before anything is written, as in gin

// inner is the writer of the guard with the methods of gin.ResponseWriter. Like gin's writer, it is
// not safe for concurrent use.
type inner struct {
	http.ResponseWriter
	request *http.Request
	status  int
	size    int
}

var _ gin.ResponseWriter = (*inner)(nil)

func newInner(w http.ResponseWriter, r *http.Request, status int) *inner {
	return &inner{ResponseWriter: w, request: r, status: status, size: nothing}
}

// WriteHeader sets the status. It is sent with the first byte, or at the end.
func (w *inner) WriteHeader(status int) {
	switch {
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(status)
	case status > 0 && !w.Written():
		w.status = status
	}
}

// WriteHeaderNow sends the current status.
func (w *inner) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// Write writes a part of the body.
func (w *inner) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

// WriteString is like Write.
func (w *inner) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += n
	return n, err
}

// Status returns the current status.
func (w *inner) Status() int { return w.status }

// Size returns the bytes of the body so far, or -1 before the header is written.
func (w *inner) Size() int { return w.size }

// Written reports whether the header has been written.
func (w *inner) Written() bool { return w.size != nothing }

// Flush sends what has been written.
func (w *inner) Flush() {
	w.WriteHeaderNow()
	// as in gin: http.ResponseController returns the error
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// FlushError is Flush with its error, for http.ResponseController.
func (w *inner) FlushError() error {
	w.WriteHeaderNow()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

var errWritten = errors.New("ginidem: a body was written, so the connection cannot be taken over")

// Hijack takes the connection over, if no body was written.
func (w *inner) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.size > 0 {
		return nil, nil, errWritten
	}
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.size < 0 {
		w.size = 0
	}
	return conn, rw, err
}

// CloseNotify reports the end of the request's context. Guarded work continues when its client has
// gone, so it does not report that.
func (w *inner) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.request.Context(), func() { gone <- true })
	return gone
}

// Pusher returns nil: a pushed resource would not be part of the stored answer.
func (w *inner) Pusher() http.Pusher { return nil }

// Unwrap is for http.ResponseController.
func (w *inner) Unwrap() http.ResponseWriter { return w.ResponseWriter }
