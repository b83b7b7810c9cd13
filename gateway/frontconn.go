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
	frontIdle int32 = iota // no part of a request has been read
	frontBusy
	frontOver // closed or handed over
)

// frontConn is a connection that the front serves, one request after the other.
type frontConn struct {
	front *front
	conn  net.Conn
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

	head, body []byte // buffers for answers, reused
}

const (
	frontBuffer = 4 << 10
	// bodyRest is how long the front waits for the rest of a body; net/http then waits longer.
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

// next reads a request. r is nil if the connection has ended; ok is false if it must be handed
// over.
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

// more waits a little for the rest of a request. If it does not arrive, net/http gets what has
// arrived.
func (x *frontConn) more(length int) (*http.Request, bool) {
	if length > len(x.in) {
		x.in = append(make([]byte, 0, length), x.in[:x.n]...)[:length]
	}
	_ = x.conn.SetReadDeadline(time.Now().Add(bodyRest))
	defer x.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // an error shows at the next read
	for x.n < length {
		n, err := x.conn.Read(x.in[x.n:])
		if x.n += n; err != nil {
			return nil, false
		}
	}
	r, _, ok := wholeRequest(x.bare, x.in[:x.n])
	return r, ok && r != nil
}

// rest makes the connection idle. It returns false once the front is closing.
func (x *frontConn) rest() bool {
	x.since.Store(time.Now().UnixNano())
	x.state.Store(frontIdle)
	return !x.front.closing.Load()
}

// answer serves a request. It returns false if the connection ends with it.
func (x *frontConn) answer(r *http.Request) (keep bool) {
	w := newFrontWriter(x)
	defer func() { // also if the handler calls Goexit
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

// check closes the connection if its deadline has passed. It cancels the context of a request whose
// client has gone.
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
