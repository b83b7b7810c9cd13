package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits are those of the server before a gateway. A zero field is its default.
type Limits struct {
	// Header is the largest head of a request in bytes; default 64 KiB. A larger one: 431.
	Header int64
	// HeaderTime is how long a head may take to arrive; default 10 s.
	HeaderTime time.Duration
	// IdleTime is how long a connection is kept without a request; default 2 min.
	IdleTime time.Duration
	// Connections is how many connections there may be at once; default 20,000. Beyond that the
	// ones that have been idle longest are closed for a new one, and where each has a request the
	// new one is.
	Connections int
	// Streams is how many requests one connection of HTTP/2 may have at once; default 250.
	Streams int
	// NoFront leaves all requests to net/http's server. By default small guarded ones over HTTP/1.1
	// without TLS are served by one that costs less; see [Server].
	NoFront bool
}

// Server serves a gateway, or another handler. Its methods are those of [http.Server], and may be
// called concurrently.
//
// Small guarded requests over HTTP/1.1 without TLS, which are most of the traffic behind a load
// balancer, are served by a front that costs less than net/http's server does. At the first request
// of a connection that is anything else, and before a byte of it is used, the connection is
// net/http's for good (and from its beginning with Limits.NoFront): large and chunked bodies,
// streams, upgrades, HTTP/2, TLS, what is malformed, and what no guard waits for.
type Server struct {
	http  *http.Server
	all   *connections
	front *front // nil where the handler does not say what it guards, or nobody wants one
}

// NewServer returns a server for h, a [Gateway] or a [Live] as a rule, that speaks HTTP/1.1 and
// HTTP/2, over TLS and without it (by prior knowledge).
func NewServer(h http.Handler, l Limits, log *slog.Logger) *Server {
	inherit(&l.Header, 64<<10)
	inherit(&l.HeaderTime, 10*time.Second)
	inherit(&l.IdleTime, 2*time.Minute)
	inherit(&l.Streams, 250)
	inherit(&l.Connections, 20_000)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{http: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.HeaderTime,
		IdleTimeout:       l.IdleTime,
		MaxHeaderBytes:    int(l.Header),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: l.Streams, SendPingTimeout: l.IdleTime, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	s.all = newConnections(l.Connections, log)
	s.http.ConnState = s.all.changed
	if g, ok := h.(guarding); ok && !l.NoFront {
		s.front = newFront(g, l, log, s.http, s.all)
		s.all.waiting = s.front.idle
	}
	return s
}

// Serve accepts connections without TLS until Shutdown or Close; then the error is
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	if s.front == nil {
		return s.http.Serve(countedListener{l, s.all})
	}
	return s.front.serve(l)
}

// ServeTLS is Serve over TLS. The configuration has the certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	return s.http.ServeTLS(countedListener{l, s.all}, "", "")
}

// Shutdown takes no new connections, ends the idle ones, and waits for requests that run until ctx
// ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.front == nil {
		return s.http.Shutdown(ctx)
	}
	s.front.stop()
	// its connections end with their requests, while the front may still hand over some
	s.http.SetKeepAlivesEnabled(false)
	return errors.Join(s.front.wait(ctx), s.http.Shutdown(ctx))
}

// Close ends all connections at once.
func (s *Server) Close() error {
	if s.front != nil {
		s.front.close()
	}
	return s.http.Close()
}
