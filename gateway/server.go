package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ServerOptions configure a [Server]. A nil *ServerOptions and zero fields mean the defaults.
type ServerOptions struct {
	// Header is the largest head of a request in bytes; default 64 KiB. Larger: 431.
	Header int64
	// HeaderTime is how long a head may take to arrive; default 10 s. So long may also take what
	// the handler has left of a body, before the answer is sent or the connection is used again.
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

// Server serves a gateway, or another handler. It is an [http.Server] with a bound on connections,
// and its methods are like those of http.Server. They may be called concurrently.
type Server struct {
	http       *http.Server
	handler    http.Handler
	headerTime time.Duration
	log        *slog.Logger
	connLimit  connLimit
}

// NewServer returns a server for h, usually a [Gateway] or a [Live]. It speaks HTTP/1.1 and HTTP/2,
// over TLS and without it (by prior knowledge).
func NewServer(h http.Handler, options *ServerOptions) *Server {
	var o ServerOptions
	if options != nil {
		o = *options
	}
	s := &Server{handler: h, headerTime: cmp.Or(o.HeaderTime, 10*time.Second), log: cmp.Or(o.Logger, slog.Default())}
	s.connLimit = connLimit{most: int64(cmp.Or(o.Connections, 20_000)), log: s.log, idle: map[net.Conn]time.Time{}}
	protocols, idleTime := new(http.Protocols), cmp.Or(o.IdleTime, 2*time.Minute)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serveRequest),
		ReadHeaderTimeout: s.headerTime,
		WriteTimeout:      o.WriteTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    int(cmp.Or(o.Header, 64<<10)),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: cmp.Or(o.Streams, 250), SendPingTimeout: idleTime, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ConnState:         s.connLimit.trackState,
	}
	return s
}

// Serve accepts connections without TLS until Shutdown or Close; then it returns
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(limitedListener{l, &s.connLimit}) }

// ServeTLS is like Serve, over TLS. c must have the certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	return s.http.ServeTLS(limitedListener{l, &s.connLimit}, "", "")
}

// Shutdown accepts no new connections, closes the idle ones, and waits for running requests until
// ctx ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close closes all connections at once.
func (s *Server) Close() error { return s.http.Close() }

// serveRequest serves a request. net/http would log the value of a panic, which may be of the
// request, and would wait without end for what a handler has left of a body.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler {
			s.log.Error("a handler panicked; the connection was cut", "method", r.Method, "path", r.URL.EscapedPath(),
				"panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
		panic(http.ErrAbortHandler)
	}()
	s.handler.ServeHTTP(w, r)
	if r.ProtoMajor == 1 && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.headerTime))
	}
}

// connLimit counts the connections of a server. At the bound it closes the connections that have
// been idle longest, to accept a new one; if none is idle, it closes the new one.
type connLimit struct {
	most int64
	log  *slog.Logger

	open, refusedCount, closedIdle atomic.Int64
	refusals                       logPause

	mu   sync.Mutex
	idle map[net.Conn]time.Time // the connections without a request, and since when
}

// admitConn counts an accepted connection. It returns false if the caller must close it.
func (b *connLimit) admitConn() bool {
	if b.open.Add(1) <= b.most || b.closeIdle() {
		return true
	}
	b.open.Add(-1)
	n := b.refusedCount.Add(1)
	if b.refusals.mayLog() {
		b.log.Warn("connections are refused: all that there may be are open, and each has a request", "connections", b.most, "refused", n)
	}
	return false
}

// closeIdle closes idle connections, one in a hundred at a time, so that a flood does not search
// all of them for each new connection.
func (b *connLimit) closeIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	longest := make([]net.Conn, 0, len(b.idle))
	for c := range b.idle {
		longest = append(longest, c)
	}
	slices.SortFunc(longest, func(x, y net.Conn) int { return b.idle[x].Compare(b.idle[y]) })
	longest = longest[:min(int64(len(longest)), 1+b.most/100)]
	for _, c := range longest {
		delete(b.idle, c)
		go c.Close() // over TLS it may wait for the client
	}
	b.closedIdle.Add(int64(len(longest)))
	return len(longest) > 0
}

// trackState is the ConnState hook of [http.Server].
func (b *connLimit) trackState(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == http.StateNew || state == http.StateIdle {
		b.idle[c] = time.Now()
	} else {
		delete(b.idle, c)
	}
}

// limitedListener counts the connections that it accepts.
type limitedListener struct {
	net.Listener
	limit *connLimit
}

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.limit.admitConn() {
			return &countedConn{Conn: c, uncount: sync.OnceFunc(func() { l.limit.open.Add(-1) })}, nil
		}
		_ = c.Close()
	}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	uncount func()
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.uncount()
	return c.Conn.Close()
}

// CloseWrite closes one direction, for tunnels and for net/http.
func (c *countedConn) CloseWrite() error {
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom implements [io.ReaderFrom], so that files are sent as efficiently as by a connection
// that is not counted.
func (c *countedConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
