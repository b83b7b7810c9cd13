package httpsig

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Transport is an [http.RoundTripper] that signs each request. Use it as the Base of
// httpidem.Transport: then every try of a request gets a new signature, and the server recognises
// it as a duplicate. The other way round, all tries would carry one signature, of which the server
// accepts the first.
//
// If a connection turns out to be closed, [http.Transport] sends the request again by itself,
// unchanged. If the first copy had arrived, the second gets nonce-used. Transport then signs once
// more, if the request has an Idempotency-Key or its method is idempotent (RFC 9110, section
// 9.2.2); other requests get that answer.
//
// A redirect to another host, port or scheme is an error, and nothing is sent there: an attacker
// who can redirect a client could otherwise have anything signed.
type Transport struct {
	// Base sends the requests; default http.DefaultTransport.
	Base http.RoundTripper
	// Signer signs the requests; it must be set.
	Signer *Signer
}

var (
	errNoSigner  = errors.New("httpsig: Transport.Signer is not set; nothing was sent")
	errElsewhere = errors.New("httpsig: the server redirects this request to another host, port or scheme, for which it is not signed; " +
		"nothing was sent there: ask that host itself")
)

// RoundTrip signs a copy of req and sends it. It does not change req, but reads and closes its
// body.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case t.Signer == nil:
		closeBody(req)
		return nil, errNoSigner
	case leavesOrigin(req):
		closeBody(req)
		return nil, errElsewhere
	}
	signed := req.Clone(req.Context())
	if err := t.Signer.Sign(signed); err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.baseTransport().RoundTrip(signed)
	if err != nil || !isNonceUsed(resp) || !isRepeatable(req) {
		return resp, err
	}
	drainAnswer(resp)
	again := req.Clone(req.Context())
	again.Body = nil
	if signed.GetBody != nil {
		again.Body, _ = signed.GetBody() // in memory: never fails
	}
	if err := t.Signer.Sign(again); err != nil {
		return nil, err
	}
	return t.baseTransport().RoundTrip(again)
}

// CloseIdleConnections calls the method of that name of Base, if there is one.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.baseTransport().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) baseTransport() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// drainAnswer reads the rest of an answer, so that its connection can be reused.
func drainAnswer(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

func isNonceUsed(resp *http.Response) bool {
	if resp.StatusCode != http.StatusConflict {
		return false
	}
	p, ok := httpidem.ProblemFrom(resp)
	return ok && p.Code == codeUsed
}

// isRepeatable reports whether the server can recognise a duplicate of req, or does not need to.
func isRepeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return req.Header.Get("Idempotency-Key") != ""
}

// leavesOrigin reports whether req follows a redirect away from the host of the first request.
func leavesOrigin(req *http.Request) bool {
	first := req
	for first.Response != nil {
		if first = first.Response.Request; first == nil {
			return true // the first request is not known
		}
	}
	return first != req && originOf(first.URL) != originOf(req.URL)
}

// originOf returns the scheme, the host and the port of u (RFC 6454).
func originOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
