package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ServerOptions configure a [Server]. A nil *ServerOptions and zero fields mean the defaults.
type ServerOptions struct {
	// Header is the largest head of a request in bytes; default 64 KiB. Larger: 431.
	Header int64
	// HeaderTime is how long a head may take to arrive; default 10 s.
	HeaderTime time.Duration
	// IdleTime is how long a connection without a request is kept; default 2 min.
	IdleTime time.Duration
	// Connections is how many connections may be open at once; default 20,000. At the limit, the
	// server closes those that have been idle longest to accept a new one. If each has a request,
	// it closes the new one.
	Connections int
	// Streams is how many requests one connection of HTTP/2 may have at once; default 250.
	Streams int
	// WriteTime is how long an answer may take, from the head of its request to its last byte.
	// Default: no limit, and the handler sets deadlines itself, as a gateway does.
	WriteTime time.Duration
	// Logger gets the errors of connections; default slog.Default().
	Logger *slog.Logger
}

// Server is net/http's server with the bounds of [ServerOptions]. Its methods are like those of
// [http.Server], and may be called concurrently.
type Server struct {
	http  *http.Server
	limit *connections
}

// NewServer returns a server for h, usually a [Gateway] or a [Live]. It speaks HTTP/1.1 and HTTP/2,
// over TLS and without it (by prior knowledge).
func NewServer(h http.Handler, options *ServerOptions) *Server {
	var o ServerOptions
	if options != nil {
		o = *options
	}
	logger, idle := cmp.Or(o.Logger, slog.Default()), cmp.Or(o.IdleTime, 2*time.Minute)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{limit: &connections{most: int64(cmp.Or(o.Connections, 20_000)), logger: logger, idle: map[net.Conn]time.Time{}}}
	s.http = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: cmp.Or(o.HeaderTime, 10*time.Second),
		WriteTimeout:      o.WriteTime,
		IdleTimeout:       idle,
		MaxHeaderBytes:    int(cmp.Or(o.Header, 64<<10)),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: cmp.Or(o.Streams, 250), SendPingTimeout: idle, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ConnState:         s.limit.changed,
	}
	return s
}

// Serve accepts connections without TLS until Shutdown or Close; then it returns
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(limitedListener{l, s.limit}) }

// ServeTLS is like Serve, over TLS. c must have the certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	return s.http.ServeTLS(limitedListener{l, s.limit}, "", "")
}

// Shutdown accepts no new connections, closes the idle ones, and waits for running requests until
// ctx ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close closes all connections at once.
func (s *Server) Close() error { return s.http.Close() }

// connections counts the connections of a server. At the limit it closes those that have been idle
// longest, to accept a new one; if none is idle, it closes the new one.
type connections struct {
	most   int64
	logger *slog.Logger

	open, refused, ended atomic.Int64
	warned               atomic.Int64 // when a refusal was last logged

	mu   sync.Mutex
	idle map[net.Conn]time.Time // since when
}

// admit counts an accepted connection. It returns false if the caller must close it.
func (c *connections) admit() bool {
	if c.open.Add(1) <= c.most || c.closeIdle() {
		return true
	}
	c.open.Add(-1)
	n := c.refused.Add(1)
	if now, last := time.Now().UnixNano(), c.warned.Load(); now-last > int64(10*time.Second) && c.warned.CompareAndSwap(last, now) {
		c.logger.Warn("connections are refused: all that there may be are open, and each has a request", "connections", c.most, "refused", n)
	}
	return false
}

// closeIdle closes idle connections, one in a hundred at a time, so that a flood does not search
// all of them for each new connection. It reports whether there was one.
func (c *connections) closeIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]net.Conn, 0, len(c.idle))
	for conn := range c.idle {
		all = append(all, conn)
	}
	slices.SortFunc(all, func(a, b net.Conn) int { return c.idle[a].Compare(c.idle[b]) })
	all = all[:min(len(all), int(c.most/100)+1)]
	for _, conn := range all {
		delete(c.idle, conn)
		go conn.Close()
	}
	c.ended.Add(int64(len(all)))
	return len(all) > 0
}

// changed is the ConnState hook of [http.Server].
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew || state == http.StateIdle {
		c.idle[conn] = time.Now()
	} else {
		delete(c.idle, conn)
	}
}

// limitedListener counts the connections that it accepts.
type limitedListener struct {
	net.Listener
	limit *connections
}

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.limit.admit() {
			return &countedConn{Conn: conn, limit: l.limit}, nil
		}
		_ = conn.Close()
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	limit *connections
	once  sync.Once
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.once.Do(func() { c.limit.open.Add(-1) })
	return c.Conn.Close()
}

// CloseWrite closes one direction, for tunnels and for net/http.
func (c *countedConn) CloseWrite() error {
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom implements [io.ReaderFrom], so that files are sent as efficiently as without the limit.
func (c *countedConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
