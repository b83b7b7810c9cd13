package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// maxForwarded bounds the body of a request that a Proxy forwards, in bytes.
const maxForwarded = 64 << 20

// Proxy stands between the part that guards requests and the service. It counts the requests that
// the service answered with 200 to 299, and those that it got and did not answer. GET, HEAD,
// OPTIONS and TRACE are not counted.
//
// A request is sent to the service at most once. It goes on while its body comes in, and the answer
// comes back in the same way. A request that the service did not get, since no connection could be
// made, is answered with 503. If the service's answer breaks off, so does the Proxy's.
//
// It is safe for concurrent use.
type Proxy struct {
	listener  *listener
	upstream  *url.URL
	transport *http.Transport
	count     atomic.Int64
	trouble   atomic.Int64 // the status that is answered without the service, or 0
	delay     atomic.Int64 // in nanoseconds
}

// ListenProxy forwards requests that reach addr to upstream, the service's URL. A path of upstream
// is put before the request's path. addr is HOST:PORT, a port alone, or nothing for any free port.
// Without a host it listens on 127.0.0.1 only. Call Close in the end.
func ListenProxy(addr, upstream string) (*Proxy, error) {
	to, err := url.Parse(upstream)
	if err != nil {
		return nil, fmt.Errorf("check: the service's URL: %w", causeWithoutURL(err))
	}
	if !isAbsoluteHTTP(to) || to.User != nil || to.RawQuery != "" || to.Fragment != "" {
		return nil, errors.New("check: the service's URL needs http:// or https:// and a host, " +
			"and has no user, query or fragment")
	}
	p := &Proxy{upstream: to, transport: onceTransport()}
	forward := &httputil.ReverseProxy{
		Rewrite:        p.rewriteRequest,
		Transport:      roundTripFunc(p.forwardRequest),
		FlushInterval:  -1,
		ModifyResponse: func(r *http.Response) error { return p.awaitDelay(r.Request.Context()) },
		ErrorHandler:   answerFailure,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	p.listener, err = startListener(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(p.trouble.Load()); status != 0 {
			p.answerInstead(w, r, status)
			return
		}
		// without it the server would read the whole body before it sends the first byte back
		rc, body := http.NewResponseController(w), r.Body
		_ = rc.EnableFullDuplex()
		r.Body = http.MaxBytesReader(w, r.Body, maxForwarded)
		forward.ServeHTTP(w, r)
		if rc.Flush() == nil {
			// with full duplex the server panics if it comes to the end of the body by itself
			_ = body.Close()
		}
	}))
	if err != nil {
		return nil, err
	}
	if ownAddress(p, to) {
		return nil, errors.Join(errors.New("check: the proxy would forward to itself; give it another port than the service"), p.Close())
	}
	return p, nil
}

// onceTransport never repeats a request by itself: net/http does that only on a connection that it
// has used before.
func onceTransport() *http.Transport {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              http1,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

func (p *Proxy) rewriteRequest(r *httputil.ProxyRequest) {
	r.SetURL(p.upstream)
	r.Out.Host = r.In.Host
	// as it came: ReverseProxy leaves out what it cannot read
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := r.In.Header[name]; values != nil {
			r.Out.Header[name] = values
		}
	}
}

// roundTripFunc is an http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// forwardRequest sends r to the service and counts it.
func (p *Proxy) forwardRequest(r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	response, err := p.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	switch {
	case isSafeMethod(r.Method):
	case err != nil && connected.Load():
		p.count.Add(1)
	case err == nil && response.StatusCode >= 200 && response.StatusCode <= 299:
		p.count.Add(1)
	}
	if err != nil && !connected.Load() {
		err = notSentError{err}
	}
	return response, err
}

// notSentError is the error of a request that the service did not get.
type notSentError struct{ error }

// answerFailure answers a request that the service did not answer.
func answerFailure(w http.ResponseWriter, _ *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	var notSent notSentError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "the request has more than 64 MiB", http.StatusRequestEntityTooLarge)
	case errors.As(err, &notSent):
		w.Header().Set("Retry-After", "1")
		// a guard that knows the field lets the request be repeated
		w.Header().Set("Idempotency-Outcome", "not-executed")
		http.Error(w, "the service cannot be reached: "+notSent.Error(), http.StatusServiceUnavailable)
	default:
		panic(http.ErrAbortHandler)
	}
}

func isSafeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// URL returns the address that the guard has to use as its service.
func (p *Proxy) URL() string { return p.listener.baseURL() }

// Count implements Oracle.
func (p *Proxy) Count(context.Context) (int64, error) { return p.count.Load(), nil }

// String implements Oracle.
func (p *Proxy) String() string { return "requests that " + p.upstream.Host + " got" }

// Close ends the listener, and all requests with their connections, and waits for them.
func (p *Proxy) Close() error {
	err := p.listener.close()
	p.transport.CloseIdleConnections()
	return err
}
