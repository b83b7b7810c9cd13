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
	// NoFastPath leaves all requests to net/http's server. By default a cheaper server serves
	// those that a [FastPathHandler] names; see [Server].
	NoFastPath bool
	// Logger gets the errors of connections; default slog.Default().
	Logger *slog.Logger
}

// Server serves a gateway, or another handler. Its methods are like those of [http.Server], and may
// be called concurrently.
//
// Small guarded requests over HTTP/1.1 without TLS are most of the traffic behind a load balancer.
// A fast path serves them, at a lower cost than net/http's server. At the first request of a
// connection of any other kind, and before a byte of that request is used, net/http takes the
// connection over for good (with ServerOptions.NoFastPath: from the start). Such requests are:
// large and chunked bodies, streams, upgrades, HTTP/2, TLS, malformed requests, and requests
// without a key header. For another handler than a gateway, the fast path serves those that the
// handler names ([FastPathHandler]).
type Server struct{ inner *h1server.Server }

// FastPathHandler is a handler with small requests that the fast path of a [Server] may serve.
type FastPathHandler interface {
	http.Handler
	// FastPath reports by the method, the URL and the header of a request whether the fast path may
	// serve it. It is called concurrently, before ServeHTTP.
	FastPath(*http.Request) bool
}

// NewServer returns a server for h, usually a [Gateway] or a [Live]. It speaks HTTP/1.1 and HTTP/2,
// over TLS and without it (by prior knowledge).
func NewServer(h http.Handler, options *ServerOptions) *Server {
	var o ServerOptions
	if options != nil {
		o = *options
	}
	c := &h1server.Config{
		Handler: h, Header: int(cmp.Or(o.Header, 64<<10)), HeaderTime: cmp.Or(o.HeaderTime, 10*time.Second), IdleTime: cmp.Or(o.IdleTime, 2*time.Minute),
		WriteTime: o.WriteTime, Connections: cmp.Or(o.Connections, 20_000), Streams: cmp.Or(o.Streams, 250), Log: cmp.Or(o.Logger, slog.Default()),
	}
	if f, ok := h.(FastPathHandler); ok && !o.NoFastPath {
		c.FastPath = f.FastPath
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
