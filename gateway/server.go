package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/h1server"
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
type Server struct{ inner *h1server.Server }

// guarding is a handler that knows by the header which requests it guards.
type guarding interface {
	http.Handler
	guards(http.Header) bool
}

// NewServer returns a server for h, usually a [Gateway] or a [Live]. It speaks HTTP/1.1 and HTTP/2,
// over TLS and without it (by prior knowledge).
func NewServer(h http.Handler, l Limits, log *slog.Logger) *Server {
	c := &h1server.Config{
		Handler: h, Header: int(cmp.Or(l.Header, 64<<10)), HeaderTime: cmp.Or(l.HeaderTime, 10*time.Second), IdleTime: cmp.Or(l.IdleTime, 2*time.Minute),
		Connections: cmp.Or(l.Connections, 20_000), Streams: cmp.Or(l.Streams, 250), Log: log,
	}
	if g, ok := h.(guarding); ok && !l.NoFront {
		c.Guards = g.guards
	}
	return &Server{h1server.New(c)}
}

// Serve accepts connections without TLS until Shutdown or Close; then it returns
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error { return s.inner.Serve(l) }

// ServeTLS is like Serve, over TLS. c must have the certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error { return s.inner.ServeTLS(l, c) }

// Shutdown accepts no new connections, closes the idle ones, and waits for running requests until
// ctx ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.inner.Shutdown(ctx) }

// Close closes all connections at once.
func (s *Server) Close() error { return s.inner.Close() }
