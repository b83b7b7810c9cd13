// Package once sends requests to a service, and a guarded one never twice.
//
// net/http's Transport sends a request again by itself when a kept connection breaks, also a POST
// if it has an Idempotency-Key. So the connections of HTTP/1.1 are kept here: net/http writes the
// requests and reads the answers, and a [Transport] knows whether any byte of a request was given
// to the kernel. HTTP/2 is that of net/http, whose errors say so.
package once

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Transport sends requests to services. It is safe for concurrent use.
type Transport struct {
	dialer *net.Dialer
	tls    *tls.Config
	idle   idleConns
	http2  *http.Transport // for services that have chosen it
	chosen sync.Map        // host -> whether it chose HTTP/2 when it was last asked
}

const (
	// idleTime is below the idle limits of servers (gunicorn 2 s, Node 5 s), so that the gateway
	// closes first: a request that meets a connection just being closed is in doubt.
	idleTime      = 1500 * time.Millisecond
	handshakeTime = 10 * time.Second
	maxHead       = 256 << 10 // of an answer, in bytes
)

// NewTransport returns a transport that trusts the authorities of trust; nil: those of the system.
func NewTransport(trust *x509.CertPool) *Transport {
	t := &Transport{
		idle:   idleConns{most: idleTime},
		dialer: &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second},
		tls:    &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	only := new(http.Protocols)
	only.SetHTTP2(true)
	t.http2 = &http.Transport{
		Protocols:              only,
		DialTLSContext:         t.dialHTTP2,
		MaxResponseHeaderBytes: maxHead,
		IdleConnTimeout:        idleTime,
		DisableCompression:     true, // answers are passed on as they are
		// Ping a silent connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	return t
}

// RoundTrip implements [http.RoundTripper] for a request that is not guarded. Like net/http it
// sends a request that changes nothing and has no body once more if a kept connection breaks.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.send(r, nil)
	if err != nil && r.Body != nil {
		_ = r.Body.Close()
	}
	return resp, err
}

// Send sends a guarded request at most once. d then knows its outcome.
func (t *Transport) Send(r *http.Request, d *Delivery) (*http.Response, error) {
	return t.send(r, d)
}

// CloseIdleConnections closes what is not in use.
func (t *Transport) CloseIdleConnections() {
	t.idle.closeAll()
	t.http2.CloseIdleConnections()
}

var (
	errChoseHTTP1 = errors.New("the service has chosen HTTP/1.1")
	errChoseHTTP2 = errors.New("the service has chosen HTTP/2")
	errMethod     = errors.New("the method is no token (RFC 9110, section 9.1)")
)

// send sends a request by the protocol that the service has chosen. While it chooses another one,
// nothing was sent.
func (t *Transport) send(r *http.Request, d *Delivery) (resp *http.Response, err error) {
	if r.Method != "" && !httpidem.IsToken(r.Method) {
		return nil, errMethod // net/http would write it
	}
	for range 5 {
		if http2, _ := t.chosen.Load(r.URL.Host); http2 == true && r.URL.Scheme == "https" && !needsHTTP1(r) {
			resp, err = t.sendHTTP2(r, d)
		} else {
			resp, err = t.sendHTTP1(r, d)
		}
		switch {
		case errors.Is(err, errChoseHTTP1):
			t.chosen.Store(r.URL.Host, false)
		case errors.Is(err, errChoseHTTP2):
			t.chosen.Store(r.URL.Host, true)
		default:
			return resp, err
		}
	}
	return nil, err
}

// needsHTTP1 reports whether a request asks for another protocol on its connection.
func needsHTTP1(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// sendHTTP1 sends a request over HTTP/1.1. One that is not guarded is sent on the next connection
// if a kept one was closed before anything of it was sent, or before anything was answered to a
// request that changes nothing.
func (t *Transport) sendHTTP1(r *http.Request, d *Delivery) (*http.Response, error) {
	for {
		if err := r.Context().Err(); err != nil {
			return nil, context.Cause(r.Context())
		}
		c, err := t.connect(r)
		if err != nil {
			return nil, err
		}
		reused := c.used
		if d != nil {
			if err := d.noteConn(reused, false); err != nil {
				c.wire.cutOff()
				return nil, err
			}
		}
		resp, err := c.exchange(r, &t.idle)
		if err == nil {
			return resp, nil
		}
		sent, answered, gone := c.wire.wasSent(), c.answered, c.wire.hasFailed() || errors.Is(err, errGone)
		if d != nil {
			d.noteFailure(sent, answered, gone)
			return nil, err
		}
		again := errors.Is(err, errGone) || hasNoBody(r) && (!sent && gone || sent && !answered && changesNothing(r.Method))
		if !reused || !again {
			return nil, err
		}
	}
}

// changesNothing reports whether a method is safe (RFC 9110, section 9.2.1).
func changesNothing(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func hasNoBody(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// connect returns a connection of HTTP/1.1 for a request: a kept one, or a new one.
func (t *Transport) connect(r *http.Request) (*conn, error) {
	to := addressOf(r.URL)
	if c := t.idle.reuseConn(to); c != nil {
		return c, nil
	}
	protocols := t.tls.NextProtos
	if needsHTTP1(r) {
		protocols = protocols[1:]
	}
	stream, w, err := t.dial(r.Context(), to, protocols)
	if err != nil {
		return nil, err
	}
	if over, ok := stream.(*tls.Conn); ok && over.ConnectionState().NegotiatedProtocol == "h2" {
		_ = over.Close()
		return nil, errChoseHTTP2
	}
	return newConn(to, stream, w), nil
}

// dialHTTP2 makes a connection for net/http, unless the service does not choose HTTP/2 any more.
func (t *Transport) dialHTTP2(ctx context.Context, _, hostPort string) (net.Conn, error) {
	stream, _, err := t.dial(ctx, address{"https", hostPort}, t.tls.NextProtos)
	if err != nil {
		return nil, err
	}
	if over, ok := stream.(*tls.Conn); !ok || over.ConnectionState().NegotiatedProtocol != "h2" {
		_ = stream.Close()
		return nil, errChoseHTTP1
	}
	return stream, nil
}

// address is where a service is.
type address struct{ scheme, host string }

func addressOf(u *url.URL) address { return address{u.Scheme, u.Host} }

// dial makes a connection, with TLS for https. Its errors are those of a service that cannot be
// reached.
func (t *Transport) dial(ctx context.Context, to address, protocols []string) (net.Conn, *wire, error) {
	host, port, err := net.SplitHostPort(to.host)
	if err != nil {
		host = strings.Trim(to.host, "[]")
	}
	if port == "" {
		port = to.scheme // net knows the ports of both
	}
	c, err := t.dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, nil, &unreachableError{err}
	}
	w := newWire(c)
	if to.scheme != "https" {
		return w, w, nil
	}
	w.encrypted = true
	config := t.tls.Clone()
	config.ServerName, config.NextProtos = host, protocols
	over := tls.Client(w, config)
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if err := over.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, nil, &unreachableError{err}
	}
	return over, w, nil
}

// unreachableError is the error of a connection that could not be made.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// Unreachable reports whether err says that no connection could be made, so that nothing was sent,
// and that the address may be left out for a while.
func Unreachable(err error) bool {
	var u *unreachableError
	return errors.As(err, &u)
}

// EventStream reports whether an answer is a stream of server-sent events.
func EventStream(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
}
