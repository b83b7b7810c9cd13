package h1server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

// The states of a connection.
const (
	idle int32 = iota // no part of a request has been read
	busy
	over // closed or handed over
)

// conn is a connection that the front serves, one request after the other.
type conn struct {
	front *front
	net   net.Conn
	// what its requests share; their context ends with the connection
	bare *http.Request
	gone context.CancelFunc // cancels that context

	state  atomic.Int32
	since  atomic.Int64 // when it became idle, in Unix nanoseconds
	served atomic.Bool  // at least one request
	// when the current write must be done, in Unix nanoseconds; 0: no deadline
	deadline atomic.Int64

	in []byte
	n  int // bytes of in that were read and not used yet

	large int64 // taken from the front's memory for large requests

	head, body []byte // buffers for answers, reused
}

const (
	// bodyRest is how long the front waits for the rest of a body; net/http then waits longer.
	bodyRest = 100 * time.Millisecond
	// mostLarge is how much memory all requests that are larger than the buffer may take, in bytes.
	mostLarge = 8 << 20
)

func (c *conn) serve() {
	handed := false
	defer func() {
		c.front.forget(c)
		c.gone()
		c.freeLarge()
		if !handed {
			_ = c.net.Close()
			c.front.limit.leave()
		}
	}()
	c.in = make([]byte, bufferSize)
	for {
		r, length, ok := c.next()
		if !ok {
			if handed = c.state.CompareAndSwap(busy, over); handed {
				c.front.handed.take(&begunConn{Conn: c.net, begun: c.in[:c.n], left: c.front.limit.leave})
			}
			return
		}
		if r == nil || !c.answer(r) {
			return
		}
		if len(c.in) > bufferSize { // the body of the request owns it
			c.in, c.n = make([]byte, bufferSize), 0
			c.freeLarge()
		} else {
			c.n = copy(c.in, c.in[length:c.n])
		}
		c.served.Store(true)
		if !c.rest() {
			return
		}
	}
}

// next reads a request. r is nil if the connection has ended; ok is false if it must be handed
// over.
func (c *conn) next() (r *http.Request, length int, ok bool) {
	if c.n == 0 {
		n, err := c.net.Read(c.in)
		if err != nil {
			return nil, 0, true
		}
		c.n = n
	}
	if !c.state.CompareAndSwap(idle, busy) {
		return nil, 0, true
	}
	r, length, ok = wholeRequest(c.bare, c.in[:c.n])
	if !ok {
		return nil, 0, false
	}
	if r == nil {
		if r, ok = c.more(length); !ok {
			return nil, 0, false
		}
	}
	if !c.front.guards(r.Header) {
		return nil, 0, false
	}
	return r, length, true
}

// more waits a little for the rest of a request. If it does not arrive, net/http gets what has
// arrived.
func (c *conn) more(length int) (*http.Request, bool) {
	if length > len(c.in) {
		if !c.takeLarge(int64(length)) {
			return nil, false
		}
		c.in = append(make([]byte, 0, length), c.in[:c.n]...)[:length]
	}
	_ = c.net.SetReadDeadline(time.Now().Add(bodyRest))
	defer c.net.SetReadDeadline(time.Time{}) //nolint:errcheck // an error shows at the next read
	for c.n < length {
		n, err := c.net.Read(c.in[c.n:])
		if c.n += n; err != nil {
			return nil, false
		}
	}
	r, _, ok := wholeRequest(c.bare, c.in[:c.n])
	return r, ok && r != nil
}

// takeLarge takes memory for a request that is larger than the buffer. It returns false if there is
// none: net/http then reads the body in parts, and its handler bounds the memory for that.
func (c *conn) takeLarge(n int64) bool {
	if c.front.large.Add(n) > mostLarge {
		c.front.large.Add(-n)
		return false
	}
	c.large = n
	return true
}

func (c *conn) freeLarge() {
	c.front.large.Add(-c.large)
	c.large = 0
}

// rest makes the connection idle. It returns false once the front is closing.
func (c *conn) rest() bool {
	c.since.Store(time.Now().UnixNano())
	c.state.Store(idle)
	return !c.front.closing.Load()
}

// answer serves a request. It returns false if the connection ends with it.
func (c *conn) answer(r *http.Request) (keep bool) {
	w := newResponse(c)
	defer func() { // also if the handler calls Goexit
		c.deadline.Store(0)
		w.over = true
		if p := recover(); p != nil {
			keep = false
			if err, is := p.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
				c.front.log.Error("a handler panicked; the connection was cut", "method", r.Method, "path", r.URL.EscapedPath(), "panic", fmt.Sprintf("%T", p))
			}
		}
	}()
	c.front.handler.ServeHTTP(w, r)
	return w.end()
}

// check closes the connection if its deadline has passed. It cancels the context of a request whose
// client has gone.
func (c *conn) check(now int64, t times) {
	waited := time.Duration(now - c.since.Load())
	switch c.state.Load() {
	case idle:
		limit := t.idle
		if !c.served.Load() {
			limit = min(limit, t.head)
		}
		if waited > limit {
			c.endIdle()
		}
	case busy:
		if end := c.deadline.Load(); end != 0 && now > end {
			_ = c.net.Close() // the client does not read
		} else if waited > time.Second && h1.HungUp(c.net) {
			c.gone()
		}
	}
}

// endIdle closes the connection unless a request has begun on it.
func (c *conn) endIdle() bool {
	was := c.state.CompareAndSwap(idle, over)
	if was {
		_ = c.net.Close()
	}
	return was
}
