// Package h1server serves HTTP with net/http, and the usual guarded request of HTTP/1.1 at a lower
// cost.
package h1server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Config configures a [Server]. All fields but FastPath and WriteTime must be set.
type Config struct {
	Handler http.Handler
	// FastPath reports by the method, the URL and the header of a request whether the fast path may
	// serve it. It is called for each request that the fast path can read, before Handler, and
	// concurrently. nil: there is no fast path, and net/http serves all.
	FastPath func(*http.Request) bool
	// Header is the largest head of a request, in bytes.
	Header int
	// HeaderTime is how long a head may take to arrive.
	HeaderTime time.Duration
	// IdleTime is how long a connection without a request is kept.
	IdleTime time.Duration
	// WriteTime is how long an answer may take, from the head of its request to its last byte.
	// Zero: the handler sets deadlines itself.
	WriteTime time.Duration
	// Connections is how many connections may be open at once. At the limit, those that have been
	// idle longest are closed to accept a new one. If each has a request, the new one is closed.
	Connections int
	// Streams is how many requests one connection of HTTP/2 may have at once.
	Streams int
	Log     *slog.Logger
}

// Server serves HTTP/1.1 and HTTP/2, over TLS and without it. A fast path serves small requests
// over HTTP/1.1 without TLS that Config.FastPath names. At the first request of a connection of any
// other kind, and before a byte of that request is used, net/http takes the connection over for
// good.
//
// Its methods are like those of [http.Server], and may be called concurrently.
type Server struct {
	http     *http.Server
	limit    *limit
	fastPath *fastPath // nil: there is none
}

// New returns a server.
func New(c *Config) *Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{limit: newLimit(c.Connections, c.Log)}
	s.http = &http.Server{
		Handler:           c.Handler,
		ReadHeaderTimeout: c.HeaderTime,
		WriteTimeout:      c.WriteTime,
		IdleTimeout:       c.IdleTime,
		MaxHeaderBytes:    c.Header,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: c.Streams, SendPingTimeout: c.IdleTime, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		ConnState:         s.limit.changed,
	}
	if c.FastPath != nil {
		s.fastPath = newFastPath(c, s.http, s.limit)
		s.limit.idleConns = s.fastPath.idleConns
	}
	return s
}

// Serve accepts connections without TLS until Shutdown or Close; then it returns
// [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	if s.fastPath == nil {
		return s.http.Serve(limitedListener{l, s.limit})
	}
	return s.fastPath.serve(l)
}

// ServeTLS is like Serve, over TLS. c must have the certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	return s.http.ServeTLS(limitedListener{l, s.limit}, "", "")
}

// Shutdown accepts no new connections, closes the idle ones, and waits for running requests until
// ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.fastPath == nil {
		return s.http.Shutdown(ctx)
	}
	s.fastPath.stop()
	// its connections end with their requests, while the fast path may still hand some over
	s.http.SetKeepAlivesEnabled(false)
	return errors.Join(s.fastPath.wait(ctx), s.http.Shutdown(ctx))
}

// Close closes all connections at once.
func (s *Server) Close() error {
	if s.fastPath != nil {
		s.fastPath.close()
	}
	return s.http.Close()
}

// Open returns how many connections are open.
func (s *Server) Open() int64 { return s.limit.open.Load() }

// Refused returns how many connections were closed at once, since each of those that may be open
// had a request.
func (s *Server) Refused() int64 { return s.limit.refused.Load() }

// Ended returns how many idle connections were closed to accept new ones.
func (s *Server) Ended() int64 { return s.limit.ended.Load() }
