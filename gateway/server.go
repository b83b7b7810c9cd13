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

// Limits are the limits of the server before a gateway. A zero field means its default.
type Limits struct {
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
	// NoFront leaves all requests to net/http's server. By default a cheaper server serves small
	// guarded requests over HTTP/1.1 without TLS; see [Server].
	NoFront bool
}

// Server serves a gateway, or another handler. Its methods are like those of [http.Server], and may
// be called concurrently.
//
// Small guarded requests over HTTP/1.1 without TLS are most of the traffic behind a load balancer.
// A front serves them, at a lower cost than net/http's server. At the first request of a connection
// of any other kind, and before a byte of that request is used, net/http takes the connection over
// for good (with Limits.NoFront: from the start). Such requests are: large and chunked bodies,
// streams, upgrades, HTTP/2, TLS, malformed requests, and requests without a key header.
type Server struct {
	http  *http.Server
	all   *connections
	front *front // nil if the handler does not say what it guards, or with Limits.NoFront
}

// NewServer returns a server for h, usually a [Gateway] or a [Live]. It speaks HTTP/1.1 and HTTP/2,
// over TLS and without it (by prior knowledge).
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

// Serve accepts connections without TLS until Shutdown or Close; then it returns
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	if s.front == nil {
		return s.http.Serve(countedListener{l, s.all})
	}
	return s.front.serve(l)
}

// ServeTLS is like Serve, over TLS. c must have the certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	return s.http.ServeTLS(countedListener{l, s.all}, "", "")
}

// Shutdown accepts no new connections, closes the idle ones, and waits for running requests until
// ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.front == nil {
		return s.http.Shutdown(ctx)
	}
	s.front.stop()
	// its connections end with their requests, while the front may still hand some over
	s.http.SetKeepAlivesEnabled(false)
	return errors.Join(s.front.wait(ctx), s.http.Shutdown(ctx))
}

// Close closes all connections at once.
func (s *Server) Close() error {
	if s.front != nil {
		s.front.close()
	}
	return s.http.Close()
}
