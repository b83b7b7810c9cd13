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

// conn is a connection that the fast path serves, one request after the other.
type conn struct {
	fastPath *fastPath
	net      net.Conn
	// what its requests share; their context ends with the connection
	bare *http.Request
	gone context.CancelFunc // cancels that context

	state  atomic.Int32
	since  atomic.Int64 // when it became idle, in Unix nanoseconds
	served atomic.Bool  // at least one request
	// when the current write must be done, in Unix nanoseconds; 0: no deadline
	deadline atomic.Int64

	in     []byte
	n      int   // bytes of in that were read and not used yet
	length int   // of a request that is incomplete
	looked int64 // since, when check last looked whether the client has hung up

	taken int64 // from the fast path's memory for large requests

	head, body []byte // buffers for answers, reused
}

const (
	// bodyRest is how long the fast path waits for the rest of a body; net/http then waits longer.
	bodyRest = 100 * time.Millisecond
	// mostLarge is how much memory all requests that are larger than the buffer may take, in bytes.
	mostLarge = 8 << 20
)

// verdict is how a connection goes on after a read.
type verdict int

const (
	wait       verdict = iota // for the next request
	incomplete                // the rest of a request is missing: more waits for it
	handOver                  // to net/http
	ended
)

func (c *conn) serve() {
	handed := false
	defer func() {
		c.fastPath.forget(c)
		c.gone()
		c.freeLarge()
		if !handed {
			_ = c.net.Close()
			c.fastPath.limit.leave()
		}
	}()
	c.in = make([]byte, bufferSize)
	then := wait
	room := func() []byte { return c.in[c.n:] } // never empty: all requests before it are served
	got := func(n int) bool {
		c.n += n
		then = c.requests()
		return then == wait
	}
	for then == wait {
		if eachRead(c.net, room, got) != nil {
			return
		}
		for then == incomplete {
			if then = c.late(); then == wait {
				then = c.requests()
			}
		}
	}
	if then == handOver {
		if handed = c.state.CompareAndSwap(busy, over); handed {
			c.fastPath.handed.take(&begunConn{Conn: c.net, begun: c.in[:c.n], left: c.fastPath.limit.leave})
		}
	}
}

// requests serves what has been read.
func (c *conn) requests() verdict {
	for c.n > 0 {
		if !c.state.CompareAndSwap(idle, busy) {
			return ended
		}
		r, length, ok := wholeRequest(c.bare, c.in[:c.n])
		switch {
		case !ok:
			return handOver
		case r == nil:
			c.length = length
			return incomplete
		}
		if then := c.one(r, length); then != wait {
			return then
		}
	}
	return wait
}

// one serves a request of a length.
func (c *conn) one(r *http.Request, length int) verdict {
	if !c.fastPath.serves(r) {
		return handOver
	}
	if !c.answer(r) {
		return ended
	}
	if len(c.in) > bufferSize { // the body of the request owns it
		c.in, c.n = make([]byte, bufferSize), 0
		c.freeLarge()
	} else {
		c.n = copy(c.in, c.in[length:c.n])
	}
	c.served.Store(true)
	if !c.rest() {
		return ended
	}
	return wait
}

// late serves the request whose end is missing.
func (c *conn) late() verdict {
	r, ok := c.more(c.length)
	if !ok {
		return handOver
	}
	return c.one(r, c.length)
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
	if c.fastPath.large.Add(n) > mostLarge {
		c.fastPath.large.Add(-n)
		return false
	}
	c.taken = n
	return true
}

func (c *conn) freeLarge() {
	c.fastPath.large.Add(-c.taken)
	c.taken = 0
}

// rest makes the connection idle. It returns false once the fast path is closing.
func (c *conn) rest() bool {
	c.since.Store(time.Now().UnixNano())
	c.state.Store(idle)
	return !c.fastPath.closing.Load()
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
				c.fastPath.log.Error("a handler panicked; the connection was cut", "method", r.Method, "path", r.URL.EscapedPath(), "panic", fmt.Sprintf("%T", p))
			}
		}
	}()
	if limit := c.fastPath.times.write; limit > 0 {
		c.deadline.Store(time.Now().Add(limit).UnixNano())
	}
	c.fastPath.handler.ServeHTTP(w, r)
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
		if waited > limit || waited > time.Second/2 && c.hungUp() {
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

// hungUp reports whether the client of an idle connection has hung up, once for each time that it
// is idle. A client that sends a request and its end at once makes the connection ready only once,
// and eachRead may then read the request alone.
func (c *conn) hungUp() bool {
	since := c.since.Load()
	if c.looked == since {
		return false
	}
	c.looked = since
	return h1.HungUp(c.net)
}

// endIdle closes the connection unless a request has begun on it.
func (c *conn) endIdle() bool {
	was := c.state.CompareAndSwap(idle, over)
	if was {
		_ = c.net.Close()
	}
	return was
}
