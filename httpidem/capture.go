package httpidem

import (
	"crypto/sha256"
	"hash"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// capture is the ResponseWriter of a guarded handler. It holds the answer back until it is stored.
// An answer that was flushed, or that exceeds the limit, is sent as it comes, except for its last
// byte. Errors of the client's connection do not reach the handler, whose work goes on.
//
// It has no Unwrap, so that a handler cannot bypass it: http.ResponseController uses its methods.
type capture struct {
	m *Middleware
	w http.ResponseWriter
	r *http.Request

	attempt  *retrysafe.Attempt
	inner    *http.Request // the request that the handler got
	detached bool          // other code finishes the attempt

	// guards the rest against goroutines that outlive the handler; not needed once closed
	mu sync.Mutex

	before    http.Header // what outer handlers had set
	header    http.Header // the handler's
	status    int
	outcome   string // the handler's Idempotency-Outcome
	wrote     bool
	closed    bool  // the handler has returned
	declared  int64 // Content-Length of the handler; -1: none
	body      *buffer
	size      int64
	over      hash.Hash // of a body over the limit, whose beginning has been dropped
	streaming bool
	hijacked  bool
	held      []byte // the last byte, while streaming
	heldByte  [1]byte
	head      *buffer // the stored head, once made
	cut       bool    // the head was too large
}

// newCapture returns a capture for one request. It is not reused: a goroutine of
// the handler may outlive it and still write.
func newCapture(m *Middleware, w http.ResponseWriter, r *http.Request) *capture {
	c := &capture{m: m, w: w, r: r, declared: -1, body: newBuffer()}
	if outer := w.Header(); len(outer) > 0 {
		c.before, c.header = maps.Clone(outer), outer.Clone()
	} else {
		c.header = make(http.Header, 8)
	}
	return c
}

func (c *capture) free() {
	c.body.free()
	if c.head != nil {
		c.head.free()
	}
}

// crash does the work of close for a handler that did not return; after close it does nothing.
// Goroutines of the handler can no longer write, and an outer handler that answers in its place
// finds the fields as they were.
func (c *capture) crash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if !c.streaming && !c.hijacked {
		c.restore()
	}
}

// Header returns the handler's fields. As with net/http, changes after WriteHeader have no effect.
func (c *capture) Header() http.Header { return c.header }

// TakeHeader makes h the handler's fields, so that a proxy need not copy those of its answer. It
// returns false if there are fields already. The caller must not use h afterwards.
func (c *capture) TakeHeader(h http.Header) bool {
	if len(c.header) > 0 || c.wrote {
		return false
	}
	c.header = h
	return true
}

// WriteHeader records the status and the current fields. It sends 1xx at once.
func (c *capture) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.writeHeader(status)
	}
}

func (c *capture) writeHeader(status int) {
	if status < 100 || status > 999 {
		panic("httpidem: invalid status " + strconv.Itoa(status)) // as net/http does
	}
	if c.wrote {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		outer := c.w.Header()
		saved := maps.Clone(outer)
		maps.Copy(outer, c.header)
		c.w.WriteHeader(status)
		clear(outer)
		maps.Copy(outer, saved)
		return
	}
	c.wrote, c.status = true, status
	c.outcome = c.header.Get(headerOutcome)
	if v := c.header["Content-Length"]; len(v) == 1 {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 {
			c.declared = n
		}
	}
	outer := c.w.Header()
	clear(outer)
	for name, values := range c.header {
		if name != headerOutcome && name != "Content-Length" {
			outer[name] = values
		}
	}
	if _, set := outer["Date"]; !set {
		outer["Date"] = date(time.Now())
	}
}

// today is the last Date value; it changes once a second.
var today atomic.Pointer[dated]

type dated struct {
	unix  int64
	value []string
}

func date(now time.Time) []string {
	d := today.Load()
	if d == nil || d.unix != now.Unix() {
		d = &dated{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
		today.Store(d)
	}
	return d.value
}

// Write adds to the body. It never returns an error of the client's connection.
func (c *capture) Write(p []byte) (int, error) { return take(c, p) }

// WriteString is like Write.
func (c *capture) WriteString(s string) (int, error) { return take(c, s) }

func take[S []byte | string](c *capture, p S) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // another request may already use the memory
		return 0, http.ErrHandlerTimeout
	}
	if c.hijacked {
		return 0, http.ErrHijacked
	}
	if !c.wrote {
		c.writeHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !bodyAllowed(c.status) {
		return 0, http.ErrBodyNotAllowed
	}
	n := len(p)
	if c.declared >= 0 && c.size+int64(n) > c.declared {
		return 0, http.ErrContentLength
	}
	c.size += int64(n)
	if c.over == nil {
		c.body.b = append(c.body.b, p...)
		if c.streaming {
			c.pass(c.body.b[len(c.body.b)-n:])
		}
		if c.size > c.m.bodyLimit {
			c.overflow()
		}
		return n, nil
	}
	part := []byte(p)
	c.over.Write(part)
	c.pass(part)
	return n, nil
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// overflow stops keeping the body: from here on it only computes the digest.
func (c *capture) overflow() {
	c.stream()
	c.over = sha256.New()
	c.over.Write(c.body.b)
	c.body.b = c.body.b[:0]
}

// stream begins to send. The field for an unconfirmed answer becomes a trailer.
func (c *capture) stream() {
	if c.streaming {
		return
	}
	c.streaming = true
	c.sniff()
	c.makeHead() // before outer handlers see and change the head
	h := c.w.Header()
	h.Add("Trailer", headerStored)
	if c.declared >= 0 && c.r.ProtoMajor >= 2 {
		// HTTP/1.1 allows no trailers together with a Content-Length
		h["Content-Length"] = []string{strconv.FormatInt(c.declared, 10)}
	}
	c.w.WriteHeader(c.status)
	c.pass(c.body.b)
}

// pass sends the byte that was held, and p without its last byte, which is held next.
func (c *capture) pass(p []byte) {
	if len(p) == 0 {
		return
	}
	if len(c.held) > 0 {
		_, _ = c.w.Write(c.held)
	}
	last := len(p) - 1
	if last > 0 {
		_, _ = c.w.Write(p[:last])
	}
	c.heldByte[0] = p[last]
	c.held = c.heldByte[:]
}

// sniff sets the content type as net/http would, so that the first answer and the replay have the
// same.
func (c *capture) sniff() {
	h := c.w.Header()
	if _, set := h["Content-Type"]; set || len(c.body.b) == 0 || h.Get("Content-Encoding") != "" {
		return
	}
	h["Content-Type"] = []string{http.DetectContentType(c.body.b)}
}

// close ends the handler's part.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.hijacked {
		return
	}
	if !c.wrote {
		c.writeHeader(http.StatusOK)
	}
	if !c.streaming {
		c.sniff()
	}
}

// whole reports whether the body has the length that the handler declared.
func (c *capture) whole() bool {
	return c.declared < 0 || c.declared == c.size || !bodyAllowed(c.status)
}

// makeHead makes the head as it is stored.
func (c *capture) makeHead() {
	c.head = newBuffer()
	c.head.b = appendHead(c.head.b, c.status, c.w.Header(), c.before, c.m.o.Answer.KeepCookies)
	if len(c.head.b) <= maxHead {
		return
	}
	c.cut = true
	h := make(http.Header, 1)
	if v := c.w.Header()["Location"]; len(v) > 0 && len(v[0]) < maxHead/2 {
		h["Location"] = v[:1]
	}
	c.head.b = appendHead(c.head.b[:0], c.status, h, nil, false)
}

// stored returns the answer to store. It uses memory of the capture.
func (c *capture) stored() retrysafe.Answer {
	if c.hijacked {
		return retrysafe.Answer{Codec: codecName} // what was sent on the connection is not known
	}
	if c.m.o.Answer.Keep == KeepNever {
		return c.statusAlone()
	}
	if c.head == nil {
		c.makeHead()
	}
	if bodyAllowed(c.status) {
		c.keepTrailer()
	}
	if c.over == nil && c.whole() && !c.cut {
		c.head.b = append(c.head.b, c.body.b...)
		return retrysafe.Answer{Codec: codecName, Body: c.head.b, Kept: true}
	}
	a := retrysafe.Answer{Codec: codecName, Body: c.head.b, Size: c.size}
	if c.over != nil {
		c.over.Sum(a.Digest[:0])
	} else {
		a.Digest = sha256.Sum256(c.body.b)
	}
	return a
}

// statusAlone returns what is stored under KeepNever: the status line. It has no digest, since the
// digest of a short answer can be guessed, and its size is that of the line.
func (c *capture) statusAlone() retrysafe.Answer {
	line := appendHead(nil, c.status, nil, nil, false)
	return retrysafe.Answer{Codec: codecName, Body: line, Size: int64(len(line))}
}

// send sends the answer, or the rest of it, to the client.
func (c *capture) send(unconfirmed bool) {
	if c.hijacked {
		return
	}
	h := c.w.Header()
	if unconfirmed {
		h[headerStored] = []string{"unconfirmed"} // a trailer if the head has been sent
	}
	trailer := c.trailer()
	if c.streaming {
		if !c.whole() {
			panic(http.ErrAbortHandler) // so that the client does not take the answer for complete
		}
		if len(c.held) > 0 {
			_, _ = c.w.Write(c.held)
		}
		maps.Copy(h, trailer)
		return
	}
	switch {
	case len(trailer) > 0: // HTTP/1.1 allows no trailer together with a length
	case bodyAllowed(c.status):
		length := c.size
		if !c.whole() {
			length = c.declared
		}
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	case c.declared >= 0 && c.status == http.StatusNotModified:
		h["Content-Length"] = []string{strconv.FormatInt(c.declared, 10)}
	}
	c.w.WriteHeader(c.status)
	if len(c.body.b) > 0 {
		_, _ = c.w.Write(c.body.b)
	}
	maps.Copy(h, trailer)
}

// restore removes the handler's fields, and puts back those of outer handlers.
func (c *capture) restore() {
	h := c.w.Header()
	clear(h)
	maps.Copy(h, c.before)
}
