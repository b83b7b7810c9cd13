package once

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// conn is a connection of HTTP/1.1. One request has it at a time.
type conn struct {
	to     address
	stream net.Conn // TLS over wire, or wire
	wire   *wire
	in     *bufio.Reader
	out    *bufio.Writer

	used      bool      // it has had a request
	idleSince time.Time // if it has none now
	headLeft  int64     // how much may come of an answer before its body
	answered  bool      // something has come since the request
}

func newConn(to address, stream net.Conn, w *wire) *conn {
	c := &conn{to: to, stream: stream, wire: w}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(requestWriter{stream})
	return c
}

// requestWriter writes each piece of a body as it comes. A bufio.Writer fills its buffer first if
// what it writes to has no ReadFrom.
type requestWriter struct{ stream net.Conn }

func (w requestWriter) Write(p []byte) (int, error) { return w.stream.Write(p) }

// ReadFrom implements [io.ReaderFrom]. All bytes pass the wire, which counts them.
func (w requestWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w.stream}, r)
}

var (
	errHeadTooLarge = errors.New("the head of the answer is too large")
	errSwitch       = errors.New("the service has switched protocols unasked, or before it has read the request")
	// errGone comes before any of the body was read.
	errGone = fmt.Errorf("the connection cannot be used: %w", errUnasked)
)

// Read reads what the service sends.
func (c *conn) Read(p []byte) (int, error) {
	if c.headLeft <= 0 {
		return 0, errHeadTooLarge
	}
	n, err := c.stream.Read(p[:min(int64(len(p)), c.headLeft)])
	c.headLeft -= int64(n)
	c.answered = c.answered || n > 0
	return n, err
}

// exchange sends a request, and returns the head of its answer. When the body of the answer has
// been read to its end, the connection is idle.
func (c *conn) exchange(r *http.Request, idle *idleConns) (*http.Response, error) {
	ctx := r.Context()
	end := context.AfterFunc(ctx, c.wire.cutOff)
	// A new connection of TLS has tickets to read.
	quiet := c.used || !c.wire.encrypted
	c.used, c.answered, c.headLeft = true, false, maxHead
	c.wire.beginRequest(quiet)
	var written *writing
	var err error
	switch {
	case ctx.Err() != nil: // it ended while the connection was made, or the lease extended
		err = context.Cause(ctx)
	case isSmall(r):
		err = c.write(r, inOnePiece{c.out})
	default:
		written, err = c.writeMeanwhile(r)
	}
	var resp *http.Response
	if err == nil || c.wire.wasSent() {
		// A service may answer before it has read all, and then end the connection.
		var failed error
		if resp, failed = c.readHead(r); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	if resp != nil && resp.StatusCode == http.StatusSwitchingProtocols && (err != nil || !isSwitch(r, resp) || !written.succeedsSoon()) {
		// the rest would be read as the other protocol
		resp, err = nil, errors.Join(err, errSwitch)
	}
	if resp == nil {
		end()
		c.wire.cutOff()
		err = whyEnded(ctx, err)
		// The body is not read any more when the caller continues. It may have caused all this.
		return nil, errors.Join(written.wait(), err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &tunnel{c: c, end: end}
		return resp, nil
	}
	a := &answerBody{ReadCloser: resp.Body, ctx: ctx, c: c, idle: idle, end: end, written: written, keep: err == nil && resp.StatusCode >= 200 && !resp.Close && !r.Close}
	if resp.Body == http.NoBody {
		a.finish(true)
	} else {
		resp.Body = a
	}
	return resp, nil
}

// whyEnded returns the cause of the end of ctx, if that is why a call failed with err.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Body is the body of a request in memory.
type Body struct{ bytes.Reader }

// NewBody returns a body of b.
func NewBody(b []byte) *Body {
	body := new(Body)
	body.Reset(b)
	return body
}

// Close implements [io.Closer].
func (*Body) Close() error { return nil }

// smallRequest is what the kernel accepts at once of a request, at least: 16 KB by default.
const smallRequest = 8 << 10

// isSmall reports whether a request can be written without waiting for the service or the client.
func isSmall(r *http.Request) bool {
	size := 3*len(r.URL.Path) + len(r.URL.RawQuery) + len(r.Host) // a path may be escaped
	if body, ok := r.Body.(*Body); ok {
		size += body.Len()
	} else if !hasNoBody(r) {
		return false
	}
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(": \r\n") + len(v)
		}
	}
	return size <= smallRequest
}

// write writes a request with its body.
func (c *conn) write(r *http.Request, out io.Writer) error {
	if err := r.Write(out); err != nil {
		return err
	}
	return c.out.Flush()
}

// inOnePiece is a bufio.Writer that net/http does not recognise as one, so that it does not flush
// the head before the body.
type inOnePiece struct{ *bufio.Writer }

// writeMeanwhile writes a request while its answer may come, and returns once some of it was sent.
// What comes before that answers no request.
func (c *conn) writeMeanwhile(r *http.Request) (*writing, error) {
	begun, isQuiet := c.wire.watchBegin()
	if !isQuiet {
		return nil, errGone // nothing of the body was read
	}
	body := &requestBody{ReadCloser: r.Body}
	if !hasNoBody(r) { // a large head
		r = r.WithContext(r.Context()) // a copy
		r.Body = body
	}
	w := &writing{done: make(chan struct{})}
	go func() {
		err := c.write(r, c.out)
		if failed := body.failed.Load(); failed != nil {
			err = *failed
		}
		w.err = err
		close(w.done)
		if err != nil && !c.wire.hasFailed() {
			c.wire.cutOff() // the service would wait for the rest
		}
	}()
	select {
	case <-begun:
		return w, nil
	case <-w.done:
		return nil, w.err
	}
}

// writing is a request that is written while its answer may come. A nil one was written before.
type writing struct {
	done chan struct{} // closed at its end
	err  error         // of it
}

// wait waits for the end.
func (w *writing) wait() error {
	if w == nil {
		return nil
	}
	<-w.done
	return w.err
}

// writtenSoon is how long an answer waits for the end of its request, which the service has read.
const writtenSoon = 50 * time.Millisecond

// succeedsSoon reports whether the whole request was written, or is in a moment.
func (w *writing) succeedsSoon() bool {
	if w == nil {
		return true
	}
	soon := time.NewTimer(writtenSoon)
	defer soon.Stop()
	select {
	case <-w.done:
		return w.err == nil
	case <-soon.C:
		return false
	}
}

// requestBody is a body that knows why it could not be read. net/http does not unwrap that, and may
// read the first byte on another goroutine.
type requestBody struct {
	io.ReadCloser
	failed atomic.Pointer[error]
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.failed.Store(&err)
	}
	return n, err
}

// readHead reads the head of an answer. The trace of the request gets those of 1xx before it.
func (c *conn) readHead(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	for {
		resp, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			c.headLeft = math.MaxInt64
			return resp, nil
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return nil, err
			}
			c.headLeft = maxHead // the trace limits them
		}
	}
}

// answerBody is the body of an answer. Its connection is idle after its end.
type answerBody struct {
	io.ReadCloser // of net/http
	ctx           context.Context
	c             *conn
	idle          *idleConns
	end           func() bool // ends the watch on ctx
	written       *writing
	keep          bool
	finished      atomic.Bool
}

// Read implements [io.Reader].
func (a *answerBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		a.finish(true)
	case err != nil:
		err = whyEnded(a.ctx, err)
		a.finish(false)
	}
	return n, err
}

// Close closes the connection, unless the body was read to its end.
func (a *answerBody) Close() error {
	a.finish(false)
	return nil
}

func (a *answerBody) finish(whole bool) {
	if a.finished.Swap(true) {
		return
	}
	// In this order: a watch that has begun closes the connection.
	if a.end() && whole && a.keep && a.written.succeedsSoon() && !a.c.hasUnread() {
		a.idle.keepConn(a.c)
	} else {
		a.c.wire.cutOff()
	}
}

// hasUnread reports whether more than the answer was read from the kernel.
func (c *conn) hasUnread() bool {
	if c.in.Buffered() > 0 || !c.wire.record.isComplete() {
		return true
	}
	if !c.wire.encrypted {
		return false
	}
	// TLS may have more. What is still in the kernel is found when the next request is sent.
	_ = c.wire.SetReadDeadline(time.Unix(1, 0))
	_, err := c.in.Peek(1)
	_ = c.wire.SetReadDeadline(time.Time{})
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// isSwitch reports whether an answer switches protocols as its request has asked for (RFC 9110,
// section 7.8).
func isSwitch(r *http.Request, resp *http.Response) bool {
	return needsHTTP1(r) && ConnectionNames(resp.Header["Connection"], "Upgrade")
}

// ConnectionNames reports whether the lines of a Connection field name another field, which is
// given in canonical form.
func ConnectionNames(connection []string, field string) bool {
	for _, line := range connection {
		for s := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(s)) == field {
				return true
			}
		}
	}
	return false
}

// tunnel is a connection that was switched to another protocol.
type tunnel struct {
	c   *conn
	end func() bool
}

func (t *tunnel) Read(p []byte) (int, error)  { return t.c.in.Read(p) }
func (t *tunnel) Write(p []byte) (int, error) { return t.c.stream.Write(p) }

// CloseWrite ends one direction.
func (t *tunnel) CloseWrite() error {
	for _, c := range []net.Conn{t.c.stream, t.c.wire.Conn} {
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			return half.CloseWrite()
		}
	}
	return t.Close()
}

func (t *tunnel) Close() error {
	t.end()
	return t.c.stream.Close()
}
