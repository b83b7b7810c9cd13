package gateway

import (
	"log/slog"
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
	// Streams is how many requests one connection of HTTP/2 may have at once; default 250.
	Streams int
}

// NewServer returns a server for h that speaks HTTP/1.1 and HTTP/2, over TLS (with ServeTLS) and without it (by prior knowledge).
func NewServer(h http.Handler, l Limits, log *slog.Logger) *http.Server {
	inherit(&l.Header, 64<<10)
	inherit(&l.HeaderTime, 10*time.Second)
	inherit(&l.IdleTime, 2*time.Minute)
	inherit(&l.Streams, 250)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.HeaderTime,
		IdleTimeout:       l.IdleTime,
		MaxHeaderBytes:    int(l.Header),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: l.Streams, SendPingTimeout: l.IdleTime, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
