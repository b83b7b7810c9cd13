package httpidem

import (
	"crypto/sha256"
	"hash"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// capture takes the handler's answer. Up to the limit it is held back until the record has it; an
// answer that was flushed or passes the limit goes out as it comes, all but its last byte. Errors
// of the client's connection do not reach the handler: its work goes on.
//
// It has no Unwrap: http.ResponseController works by its methods, so that nothing goes around the
// capture.
type capture struct {
	m *Middleware
	w http.ResponseWriter
	r *http.Request

	attempt  *retrysafe.Attempt
	inner    *http.Request // as the handler got it
	detached bool          // somebody else settles the attempt

	mu sync.Mutex // guards the rest against what a handler leaves behind; free once closed

	before    http.Header // what outer handlers had set
	header    http.Header // the handler's
	status    int
	outcome   string // what the handler says in Idempotency-Outcome
	wrote     bool
	closed    bool  // the handler has returned
	declared  int64 // Content-Length of the handler; -1: none
	body      *buffer
	size      int64
	over      hash.Hash // of a body over the limit, whose beginning is dropped
	streaming bool
	hijacked  bool
	held      []byte // the last byte, while streaming
	heldByte  [1]byte
	head      *buffer // what is stored, once made
	cut       bool    // the head was too large
}

// newCapture makes a capture for one request. It is not used again for another: a handler may leave
// a goroutine behind that writes.
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

// crash is close for a handler that did not return, and nothing after close: what is left of the
// handler writes nowhere, and an outer one that answers in its place finds the fields as they were.
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

// WriteHeader takes the status and the fields as they are now. 1xx go out at once.
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

// today is the value of the last Date field; it changes once a second.
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

// Write takes a part of the body. Its error is never the client's.
func (c *capture) Write(p []byte) (int, error) { return take(c, p) }

// WriteString is Write.
func (c *capture) WriteString(s string) (int, error) { return take(c, s) }

func take[S []byte | string](c *capture, p S) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // the memory may be another request's by now
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

// overflow stops keeping the body: from here on only its digest is made.
func (c *capture) overflow() {
	c.stream()
	c.over = sha256.New()
	c.over.Write(c.body.b)
	c.body.b = c.body.b[:0]
}

// stream begins to send. The field that would tell of an unconfirmed answer has to become a
// trailer.
func (c *capture) stream() {
	if c.streaming {
		return
	}
	c.streaming = true
	c.sniff()
	c.makeHead() // before outer handlers see the head, and change it
	h := c.w.Header()
	h.Add("Trailer", headerStored)
	if c.declared >= 0 && c.r.ProtoMajor >= 2 {
		// HTTP/1.1 has no trailers beside it
		h["Content-Length"] = []string{strconv.FormatInt(c.declared, 10)}
	}
	c.w.WriteHeader(c.status)
	c.pass(c.body.b)
}

// pass sends p but for its last byte, and what was held before it.
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

// sniff names the content type as net/http would, so that first answer and replay have the same.
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

// whole tells whether the body is as long as the handler said.
func (c *capture) whole() bool {
	return c.declared < 0 || c.declared == c.size || !bodyAllowed(c.status)
}

// makeHead makes the head as it is stored.
func (c *capture) makeHead() {
	c.head = newBuffer()
	c.head.b = appendHead(c.head.b, c.status, c.w.Header(), c.before, c.m.o.KeepCookies)
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

// stored is the answer as the record gets it. It uses memory of the capture.
func (c *capture) stored() retrysafe.Answer {
	if c.hijacked {
		return retrysafe.Answer{Codec: codecName} // nobody knows what was said on the connection
	}
	if c.head == nil {
		c.makeHead()
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

// send gives the answer to the client, or what is left of it.
func (c *capture) send(unconfirmed bool) {
	if c.hijacked {
		return
	}
	h := c.w.Header()
	if unconfirmed {
		h[headerStored] = []string{"unconfirmed"} // a trailer where the head is gone
	}
	trailer := c.trailer()
	if c.streaming {
		if !c.whole() {
			panic(http.ErrAbortHandler) // the client must not take it for whole
		}
		if len(c.held) > 0 {
			_, _ = c.w.Write(c.held)
		}
		maps.Copy(h, trailer)
		return
	}
	switch {
	case len(trailer) > 0: // HTTP/1.1 has none beside a length
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

// trailer returns what the handler has set after its head, of the names that it announced or under
// [http.TrailerPrefix]. Trailers go to the first client alone: they speak of one transfer.
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
		if strings.HasPrefix(name, http.TrailerPrefix) {
			set(name, v)
		}
	}
	return t
}

// restore takes the handler's fields back.
func (c *capture) restore() {
	h := c.w.Header()
	clear(h)
	maps.Copy(h, c.before)
}
