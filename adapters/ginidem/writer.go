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

// outer is gin's writer as the guard needs it: gin's own keeps a status back until something is
// written, and takes an informational one for the last.
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

const nothing = -1 // the size before anything is written, as gin has it

// inner is the writer of the guard with what gin adds to one. Like gin's it is for one goroutine.
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

// WriteHeader sets the status; it counts with the first byte, or at the end.
func (w *inner) WriteHeader(status int) {
	switch {
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(status)
	case status > 0 && !w.Written():
		w.status = status
	}
}

// WriteHeaderNow takes the status as it is.
func (w *inner) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// Write takes a part of the body.
func (w *inner) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

// WriteString is Write.
func (w *inner) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += n
	return n, err
}

// Status returns the status that is set.
func (w *inner) Status() int { return w.status }

// Size returns the bytes of the body so far, and -1 before the header.
func (w *inner) Size() int { return w.size }

// Written tells whether the header is out.
func (w *inner) Written() bool { return w.size != nothing }

// Flush sends what there is.
func (w *inner) Flush() {
	w.WriteHeaderNow()
	// as gin: who wants the error asks a controller
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// FlushError is Flush with its error, for http.ResponseController.
func (w *inner) FlushError() error {
	w.WriteHeaderNow()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

var errWritten = errors.New("ginidem: a body was written, so the connection cannot be taken over")

// Hijack hands the connection over, if no body was written.
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

// CloseNotify tells of the end of the request's context. Guarded work goes on when its client has
// gone, so that it is not told of that.
func (w *inner) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.request.Context(), func() { gone <- true })
	return gone
}

// Pusher is nil: what is pushed would not be a part of the answer that is kept.
func (w *inner) Pusher() http.Pusher { return nil }

// Unwrap is for http.ResponseController.
func (w *inner) Unwrap() http.ResponseWriter { return w.ResponseWriter }
