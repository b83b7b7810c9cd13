package once

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Transport sends requests upstream, and never the same one twice.
//
// net/http's Transport sends a request again on another connection when a kept one breaks and it
// considers the request replayable: one with an Idempotency-Key and no body, or with a body that it
// can rewind. The bodies of Transport's requests cannot be rewound. A request without a body hides
// its key from net/http by the spelling of its name, which servers do not look at; over HTTP/2,
// where net/http has further reasons, it has an empty body that cannot be rewound.
type Transport struct {
	dialer *net.Dialer
	pooled *http.Transport
	trust  *x509.CertPool
	http2  sync.Map // host -> whether it speaks HTTP/2
}

const (
	// below the idle limits of servers (gunicorn 2 s, Node 5 s), so that the gateway closes first:
	// a request that meets a connection just being closed is in doubt
	idleTime = 1500 * time.Millisecond
	maxIdle  = 256       // connections kept for an address
	maxHead  = 256 << 10 // of an answer, in bytes
)

// NewTransport returns a transport that trusts the authorities of trust; nil: those of the system.
func NewTransport(trust *x509.CertPool) *Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	pooled := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return newMeteredConn(c), nil
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
	return &Transport{dialer: dialer, pooled: pooled, trust: trust}
}

func tlsConfig(trust *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	d, _ := r.Context().Value(deliveryKey{}).(*Delivery)
	resp, err := t.send(r, d)
	switch {
	case d == nil:
	case err == nil && d.rejectUnasked():
		_ = resp.Body.Close()
		return nil, errUnasked
	case err != nil && errors.Is(d.Stopped(), errNowHTTP2):
		t.http2.Store(r.URL.Host, true)
	}
	return resp, err
}

// send sends a request; d follows it, or is nil.
func (t *Transport) send(r *http.Request, d *Delivery) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return t.pooled.RoundTrip(r)
	}
	r = r.WithContext(r.Context()) // a copy
	r.GetBody = nil
	if r.Body != nil && r.Body != http.NoBody {
		return t.pooled.RoundTrip(r)
	}
	http2, err := t.speaksHTTP2(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	if http2 {
		r.Body, r.ContentLength = io.NopCloser(new(emptyBody)), 0
	} else {
		r.Header = hideKeys(r.Header)
		if d != nil {
			d.mu.Lock()
			d.onlyHTTP1 = true
			d.mu.Unlock()
		}
	}
	return t.pooled.RoundTrip(r)
}

// hideKeys returns a copy of h in which the names that make a request replayable for net/http are
// in lower case.
func hideKeys(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	return h
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
		return false, &unreachableError{err}
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
}

// EventStream reports whether an answer is a stream of server-sent events.
func EventStream(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
}
