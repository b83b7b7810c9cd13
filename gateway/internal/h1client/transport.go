package h1client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Transport sends requests upstream, and never the same one twice.
//
// net/http's Transport sends a request again on another connection when a reused one breaks and it
// considers the request replayable: one with an Idempotency-Key and no body, or with a body that it
// can rewind. The requests of Transport have a body that it cannot rewind. Over HTTP/1.1 a request
// without a body would be sent chunked that way, which old servers reject. So it is sent with
// Content-Length 0 on a new connection; Transport never retries on a new one. Over HTTP/2 there are
// no chunks, and an empty body does no harm.
type Transport struct {
	dialer        *net.Dialer
	pooled, fresh *http.Transport
	// Pool has the connections of guarded requests over HTTP/1.1 without TLS.
	Pool  *Pool
	trust *x509.CertPool
	http2 sync.Map // host -> whether it speaks HTTP/2
}

// NewTransport returns a transport that trusts the authorities of trust; nil: those of the system.
func NewTransport(trust *x509.CertPool) *Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &Transport{
		dialer: dialer,
		// no Clone, which would fix the protocols
		pooled: newTransport(dialer, trust), fresh: newTransport(dialer, trust),
		Pool: NewPool(dialer), trust: trust,
	}
	t.pooled.Protocols.SetHTTP2(true)
	t.fresh.DisableKeepAlives = true
	return t
}

func tlsConfig(trust *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
}

func newTransport(dialer *net.Dialer, trust *x509.CertPool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &meter{Conn: c}, nil
		},
		TLSClientConfig:        tlsConfig(trust),
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    maxIdle,
		MaxResponseHeaderBytes: maxHead,
		IdleConnTimeout:        idleTime,
		DisableCompression:     true, // answers are passed on as they are
		// Ping a silent HTTP/2 connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return t.pooled.RoundTrip(r)
	}
	empty := r.Body == nil || r.Body == http.NoBody
	if empty {
		http2, err := t.speaksHTTP2(r.Context(), r.URL)
		if err != nil {
			return nil, err
		}
		if !http2 {
			return t.fresh.RoundTrip(r)
		}
	}
	if empty || r.GetBody != nil {
		r = r.WithContext(r.Context()) // a copy
		r.GetBody = nil
		if empty {
			r.Body, r.ContentLength = io.NopCloser(new(emptyBody)), 0
		}
	}
	return t.pooled.RoundTrip(r)
}

// speaksHTTP2 reports whether the service prefers HTTP/2. It finds out with a handshake, once for
// each address.
func (t *Transport) speaksHTTP2(ctx context.Context, u *url.URL) (bool, error) {
	if u.Scheme != "https" {
		return false, nil
	}
	if known, ok := t.http2.Load(u.Host); ok {
		return known == true, nil
	}
	addr, config := u.Host, tlsConfig(t.trust)
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "443")
	}
	config.NextProtos = []string{"h2", "http/1.1"}
	d := tls.Dialer{NetDialer: t.dialer, Config: config}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, &unreachable{err}
	}
	defer c.Close()
	over, ok := c.(*tls.Conn)
	http2 := ok && over.ConnectionState().NegotiatedProtocol == "h2"
	t.http2.Store(u.Host, http2)
	return http2, nil
}

type emptyBody struct{}

func (*emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// CloseIdleConnections closes what is not in use.
func (t *Transport) CloseIdleConnections() {
	t.pooled.CloseIdleConnections()
	t.fresh.CloseIdleConnections()
	t.Pool.Close()
}
