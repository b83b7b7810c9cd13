package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// The states of a connection.
const (
	frontIdle int32 = iota // nothing of a request was read
	frontBusy
	frontOver // it was ended, or handed over
)

// frontConn is a connection that the front serves, one request after the other.
type frontConn struct {
	front *front
	conn  net.Conn
	// what its requests have in common; their context ends with the connection
	bare *http.Request
	gone context.CancelFunc // of that context

	state    atomic.Int32
	since    atomic.Int64 // when it became idle, in nanoseconds of Unix
	served   atomic.Bool  // a request before
	deadline atomic.Int64 // when what is being written has to be gone; 0: none

	in []byte
	n  int // bytes of in that came and are not used yet

	head, body []byte // of the answer, used again for the next
}

const (
	frontBuffer = 4 << 10
	// bodyRest is how long the rest of a body is waited for; net/http has more patience.
	bodyRest = 100 * time.Millisecond
)

func (x *frontConn) serve() {
	handed := false
	defer func() {
		x.front.forget(x)
		x.gone()
		if !handed {
			_ = x.conn.Close()
			x.front.all.leave()
		}
	}()
	x.in = make([]byte, frontBuffer)
	for {
		r, length, ok := x.next()
		if !ok {
			if handed = x.state.CompareAndSwap(frontBusy, frontOver); handed {
				x.front.handed.take(&begunConn{Conn: x.conn, begun: x.in[:x.n], left: x.front.all.leave})
			}
			return
		}
		if r == nil || !x.answer(r) {
			return
		}
		x.n = copy(x.in, x.in[length:x.n])
		if len(x.in) > frontBuffer && x.n <= frontBuffer {
			x.in = append(make([]byte, 0, frontBuffer), x.in[:x.n]...)[:frontBuffer]
		}
		x.served.Store(true)
		if !x.rest() {
			return
		}
	}
}

// next reads a request. r is nil where the connection has ended; ok is false where it is to be
// handed over.
func (x *frontConn) next() (r *http.Request, length int, ok bool) {
	if x.n == 0 {
		n, err := x.conn.Read(x.in)
		if err != nil {
			return nil, 0, true
		}
		x.n = n
	}
	if !x.state.CompareAndSwap(frontIdle, frontBusy) {
		return nil, 0, true
	}
	r, length, ok = wholeRequest(x.bare, x.in[:x.n])
	if !ok {
		return nil, 0, false
	}
	if r == nil {
		if r, ok = x.more(length); !ok {
			return nil, 0, false
		}
	}
	if !x.front.handler.guards(r.Header) {
		return nil, 0, false
	}
	return r, length, true
}

// more waits a little for what is missing of a request. Where it does not come, what came is
// net/http's.
func (x *frontConn) more(length int) (*http.Request, bool) {
	if length > len(x.in) {
		x.in = append(make([]byte, 0, length), x.in[:x.n]...)[:length]
	}
	_ = x.conn.SetReadDeadline(time.Now().Add(bodyRest))
	defer x.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // a connection that is gone says so when it is read
	for x.n < length {
		n, err := x.conn.Read(x.in[x.n:])
		if x.n += n; err != nil {
			return nil, false
		}
	}
	r, _, ok := wholeRequest(x.bare, x.in[:x.n])
	return r, ok && r != nil
}

// rest makes the connection idle; false once the front is closing.
func (x *frontConn) rest() bool {
	x.since.Store(time.Now().UnixNano())
	x.state.Store(frontIdle)
	return !x.front.closing.Load()
}

// answer serves a request; false where the connection ends with it.
func (x *frontConn) answer(r *http.Request) (keep bool) {
	w := newFrontWriter(x)
	defer func() { // also where the handler ends its goroutine
		x.deadline.Store(0)
		w.over = true
		if p := recover(); p != nil {
			keep = false
			if err, is := p.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
				x.front.log.Error("a handler panicked; the connection was cut", "method", r.Method, "path", r.URL.EscapedPath(), "panic", fmt.Sprintf("%T", p))
			}
		}
	}()
	x.front.handler.ServeHTTP(w, r)
	return w.end()
}

// check closes the connection if its time has passed. It ends the context of a request whose client
// has gone.
func (x *frontConn) check(now int64, l Limits) {
	waited := time.Duration(now - x.since.Load())
	switch x.state.Load() {
	case frontIdle:
		limit := l.IdleTime
		if !x.served.Load() {
			limit = min(limit, l.HeaderTime)
		}
		if waited > limit {
			x.endIdle()
		}
	case frontBusy:
		if end := x.deadline.Load(); end != 0 && now > end {
			_ = x.conn.Close() // the client does not read
		} else if waited > time.Second && hungUp(x.conn) {
			x.gone()
		}
	}
}

// endIdle closes the connection unless a request has begun on it.
func (x *frontConn) endIdle() bool {
	was := x.state.CompareAndSwap(frontIdle, frontOver)
	if was {
		_ = x.conn.Close()
	}
	return was
}
