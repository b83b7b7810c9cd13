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

// Transport is an [http.RoundTripper] that signs each request. Put it under httpidem.Transport, as
// its Base: then every try of a request is signed anew, and the server takes it for the repeat that
// it is. The other way round all tries would carry one signature, of which the server accepts the
// first.
//
// A connection that turns out to be closed makes [http.Transport] send a request again by itself,
// as it is; should the first copy have arrived, the second is told nonce-used. Then Transport signs
// once more, if the request has an Idempotency-Key or is idempotent by itself (RFC 9110, section
// 9.2.2); other requests get that answer.
//
// A redirect to another host, port or scheme is an error, and nothing is sent there: whoever can
// redirect a client could have anything signed.
type Transport struct {
	// Base sends; default http.DefaultTransport.
	Base http.RoundTripper
	// Signer signs; it must be set.
	Signer *Signer
}

var (
	errNoSigner  = errors.New("httpsig: Transport.Signer is not set; nothing was sent")
	errElsewhere = errors.New("httpsig: the server redirects this request to another host, port or scheme, for which it is not signed; " +
		"nothing was sent there: ask that host itself")
)

// RoundTrip signs a copy of req and sends it. It leaves req as it is but for its body, which is
// read and closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case t.Signer == nil:
		closeBody(req)
		return nil, errNoSigner
	case elsewhere(req):
		closeBody(req)
		return nil, errElsewhere
	}
	signed := req.Clone(req.Context())
	if err := t.Signer.Sign(signed); err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.base().RoundTrip(signed)
	if err != nil || !usedNonce(resp) || !repeatable(req) {
		return resp, err
	}
	drop(resp)
	again := req.Clone(req.Context())
	again.Body = nil
	if signed.GetBody != nil {
		again.Body, _ = signed.GetBody() // in memory: never fails
	}
	if err := t.Signer.Sign(again); err != nil {
		return nil, err
	}
	return t.base().RoundTrip(again)
}

// CloseIdleConnections does so in Base, if that can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
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

// drop reads what is left of an answer, so that its connection can be used again.
func drop(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

func usedNonce(resp *http.Response) bool {
	if resp.StatusCode != http.StatusConflict {
		return false
	}
	p, ok := httpidem.ProblemFrom(resp)
	return ok && p.Code == codeUsed
}

// repeatable tells whether the server can tell a repeat, or need not.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return req.Header.Get("Idempotency-Key") != ""
}

// elsewhere tells whether req follows a redirect away from the host that was asked first.
func elsewhere(req *http.Request) bool {
	first := req
	for first.Response != nil {
		if first = first.Response.Request; first == nil {
			return true // nobody knows who was asked
		}
	}
	return first != req && origin(first.URL) != origin(req.URL)
}

// origin is the scheme, the host and the port of u (RFC 6454).
func origin(u *url.URL) string {
	if u == nil {
		return ""
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
