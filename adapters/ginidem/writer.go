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

// outerResponse adapts gin's writer to the guard. Gin's own holds a status back until something is
// written, and treats an informational status as the final one.
type outerResponse struct{ gin.ResponseWriter }

// WriteHeader sends the status at once.
func (o *outerResponse) WriteHeader(status int) {
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
func (o *outerResponse) Unwrap() http.ResponseWriter { return o.ResponseWriter }

const nothingWritten = -1 // the size before anything is written, as in gin

// innerResponse is the writer of the guard with the methods of gin.ResponseWriter. Like gin's
// writer, it is not safe for concurrent use.
type innerResponse struct {
	http.ResponseWriter
	request *http.Request
	status  int
	size    int
}

var _ gin.ResponseWriter = (*innerResponse)(nil)

func newInnerResponse(w http.ResponseWriter, r *http.Request, status int) *innerResponse {
	return &innerResponse{ResponseWriter: w, request: r, status: status, size: nothingWritten}
}

// WriteHeader sets the status. It is sent with the first byte, or at the end.
func (w *innerResponse) WriteHeader(status int) {
	switch {
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(status)
	case status > 0 && !w.Written():
		w.status = status
	}
}

// WriteHeaderNow sends the current status.
func (w *innerResponse) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// Write writes a part of the body.
func (w *innerResponse) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

// WriteString is like Write.
func (w *innerResponse) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += n
	return n, err
}

// Status returns the current status.
func (w *innerResponse) Status() int { return w.status }

// Size returns the bytes of the body so far, or -1 before the header is written.
func (w *innerResponse) Size() int { return w.size }

// Written reports whether the header has been written.
func (w *innerResponse) Written() bool { return w.size != nothingWritten }

// Flush sends what has been written.
func (w *innerResponse) Flush() {
	w.WriteHeaderNow()
	// as in gin: http.ResponseController returns the error
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// FlushError is Flush with its error, for http.ResponseController.
func (w *innerResponse) FlushError() error {
	w.WriteHeaderNow()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

var errWritten = errors.New("ginidem: a body was written, so the connection cannot be taken over")

// Hijack takes the connection over, if no body was written.
func (w *innerResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
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
func (w *innerResponse) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.request.Context(), func() { gone <- true })
	return gone
}

// Pusher returns nil: a pushed resource would not be part of the stored answer.
func (w *innerResponse) Pusher() http.Pusher { return nil }

// Unwrap is for http.ResponseController.
func (w *innerResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }
