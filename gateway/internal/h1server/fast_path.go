package h1server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// fastPath serves small requests of HTTP/1.1 itself. At the first request of any other kind it
// hands the connection over to net/http. It never refuses a request itself, so that one server
// decides how a bad request is answered.
//
// net/http's server costs a goroutine, three reads and some deadlines for each request. The fast
// path reads once, and one goroutine watches the deadlines of all connections: a deadline is a
// number in memory until it has passed.
type fastPath struct {
	handler http.Handler
	serves  func(*http.Request) bool
	rest    *http.Server // gets connections that are handed over
	times   times
	log     *slog.Logger
	handed  *handedOver
	limit   *limit

	mu        sync.Mutex
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	closing   atomic.Bool
	watched   bool
	large     atomic.Int64 // bytes of requests that are larger than a connection's buffer
}

// times are limits of connections without a request.
type times struct {
	head time.Duration // until the first request
	idle time.Duration // between two requests
	// from the head of a request to the last byte of its answer; 0: the handler sets deadlines
	write time.Duration
}

func newFastPath(c *Config, rest *http.Server, all *limit) *fastPath {
	return &fastPath{
		handler: c.Handler, serves: c.FastPath, rest: rest, times: times{c.HeaderTime, c.IdleTime, c.WriteTime}, log: c.Log, limit: all,
		handed:    &handedOver{conns: make(chan net.Conn), closed: make(chan struct{})},
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{},
	}
}

// serve accepts connections from l.
func (f *fastPath) serve(l net.Listener) error {
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
		if !f.limit.enter() {
			_ = c.Close()
			continue
		}
		f.take(c)
	}
}

// take serves a new connection.
func (f *fastPath) take(c net.Conn) {
	ctx, gone := context.WithCancel(context.WithValue(
		context.WithValue(context.Background(), http.ServerContextKey, f.rest), http.LocalAddrContextKey, c.LocalAddr()))
	x := &conn{fastPath: f, net: c, gone: gone, bare: new(http.Request).WithContext(ctx)}
	x.bare.RemoteAddr = c.RemoteAddr().String()
	x.since.Store(time.Now().UnixNano())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing.Load() {
		_ = c.Close()
		f.limit.leave()
		return
	}
	f.conns[x] = true
	go x.serve()
}

// forget removes a connection from the fast path.
func (f *fastPath) forget(x *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, x)
}

// idleConns returns the connections that wait for a request.
func (f *fastPath) idleConns() (all []idleConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.conns {
		if x.state.Load() == idle {
			all = append(all, idleConn{time.Unix(0, x.since.Load()), x.endIdle})
		}
	}
	return all
}

// watch closes connections whose deadline has passed, until the fast path has ended.
func (f *fastPath) watch() {
	t := time.NewTicker(max(10*time.Millisecond, min(f.times.head/4, f.times.idle/4, time.Second)))
	defer t.Stop()
	for ended := false; !ended; {
		now := <-t.C
		f.mu.Lock()
		for x := range f.conns {
			x.check(now.UnixNano(), f.times)
		}
		ended = f.closing.Load() && len(f.conns) == 0
		f.mu.Unlock()
	}
}

// stop accepts no new connections and closes the idle ones.
func (f *fastPath) stop() {
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
func (f *fastPath) wait(ctx context.Context) error {
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

func (f *fastPath) close() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for x := range f.conns {
		_ = x.net.Close()
	}
}
