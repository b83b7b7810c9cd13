package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// guarding is a handler that knows by the header which requests it guards.
type guarding interface {
	http.Handler
	guards(http.Header) bool
}

// front serves small guarded requests of HTTP/1.1 itself. At the first request of any other kind it
// hands the connection over to net/http. It never refuses a request itself, so that one server
// decides how a bad request is answered.
//
// net/http's server costs a goroutine, three reads and some deadlines for each request. The front
// reads once, and one goroutine watches the deadlines of all connections: a deadline is a number in
// memory until it has passed.
type front struct {
	handler guarding
	rest    *http.Server // gets connections that are handed over
	limits  Limits
	log     *slog.Logger
	handed  *handedOver
	all     *connections

	mu        sync.Mutex
	listeners map[net.Listener]bool
	conns     map[*frontConn]bool
	closing   atomic.Bool
	watched   bool
}

func newFront(h guarding, l Limits, log *slog.Logger, rest *http.Server, all *connections) *front {
	return &front{
		handler: h, rest: rest, limits: l, log: log, all: all, handed: &handedOver{conns: make(chan net.Conn), closed: make(chan struct{})},
		listeners: map[net.Listener]bool{}, conns: map[*frontConn]bool{},
	}
}

// serve accepts connections from l.
func (f *front) serve(l net.Listener) error {
	f.mu.Lock()
	if f.closing.Load() {
		f.mu.Unlock()
		return http.ErrServerClosed
	}
	f.listeners[l] = true
	if !f.watched {
		f.watched = true
		go func() { _ = f.rest.Serve(f.handed) }()
		go f.watch()
	}
	f.mu.Unlock()
	for pause := 5 * time.Millisecond; ; {
		c, err := l.Accept()
		if err != nil {
			if f.closing.Load() {
				return http.ErrServerClosed
			}
			var passing net.Error
			if errors.As(err, &passing) && passing.Temporary() { //nolint:staticcheck // "too many open files" is temporary
				f.log.Warn("a connection cannot be accepted", "error", err.Error(), "again_in", pause)
				time.Sleep(pause)
				pause = min(2*pause, time.Second)
				continue
			}
			return err
		}
		pause = 5 * time.Millisecond
		if !f.all.enter() {
			_ = c.Close()
			continue
		}
		f.take(c)
	}
}

// take serves a new connection.
func (f *front) take(c net.Conn) {
	ctx, gone := context.WithCancel(context.WithValue(
		context.WithValue(context.Background(), http.ServerContextKey, f.rest), http.LocalAddrContextKey, c.LocalAddr()))
	x := &frontConn{front: f, conn: c, gone: gone, bare: new(http.Request).WithContext(ctx)}
	x.bare.RemoteAddr = c.RemoteAddr().String()
	x.since.Store(time.Now().UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing.Load() {
		_ = c.Close()
		f.all.leave()
		return
	}
	f.conns[x] = true
	go x.serve()
}

// forget removes a connection from the front.
func (f *front) forget(x *frontConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, x)
}

// idle returns the connections that wait for a request.
func (f *front) idle() (all []idleConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.conns {
		if x.state.Load() == frontIdle {
			all = append(all, idleConn{time.Unix(0, x.since.Load()), x.endIdle})
		}
	}
	return all
}

// watch closes connections whose deadline has passed, until the front has ended.
func (f *front) watch() {
	t := time.NewTicker(max(10*time.Millisecond, min(f.limits.HeaderTime/4, f.limits.IdleTime/4, time.Second)))
	defer t.Stop()
	for ended := false; !ended; {
		now := <-t.C
		f.mu.Lock()
		for x := range f.conns {
			x.check(now.UnixNano(), f.limits)
		}
		ended = f.closing.Load() && len(f.conns) == 0
		f.mu.Unlock()
	}
}

// stop accepts no new connections and closes the idle ones.
func (f *front) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing.Store(true)
	for l := range f.listeners {
		_ = l.Close()
	}
	for x := range f.conns {
		x.endIdle()
	}
}

// wait waits for the running requests after stop.
func (f *front) wait(ctx context.Context) error {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		f.mu.Lock()
		left := len(f.conns)
		f.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

func (f *front) close() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.conns {
		_ = x.conn.Close()
	}
}

// handedOver is the listener through which the server gets connections from the front.
type handedOver struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (h *handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handedOver) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements [net.Listener].
func (h *handedOver) Addr() net.Addr { return &net.TCPAddr{} }

// take passes a connection to the server.
func (h *handedOver) take(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		_ = c.Close()
	}
}

// begunConn is a connection from which some bytes have already been read.
type begunConn struct {
	net.Conn

	begun []byte // bytes to return first
	left  func() // called once, when the connection is closed
	once  sync.Once
}

// Close implements [net.Conn].
func (c *begunConn) Close() error {
	c.once.Do(c.left)
	return c.Conn.Close()
}

// Read implements [net.Conn].
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.begun) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.begun)
	c.begun = c.begun[n:]
	return n, nil
}

// CloseWrite closes one direction, for tunnels and for net/http.
func (c *begunConn) CloseWrite() error {
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom implements [io.ReaderFrom], so that files are sent as efficiently as without the front.
func (c *begunConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
