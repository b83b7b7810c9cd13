package gateway

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/once"
)

// outgoingRequest returns a guarded request as the service gets it, without its address, its body
// and its context.
func (g *sender) outgoingRequest(r *http.Request, a *retrysafe.Attempt) *http.Request {
	out := new(http.Request)
	*out = *r
	out.Body, out.GetBody, out.ContentLength, out.TransferEncoding, out.RequestURI = http.NoBody, nil, 0, nil, ""
	out.Close, out.Trailer, out.Header = false, nil, make(http.Header, len(r.Header)+6)
	g.eachOutgoingField(r, a, func(name, value string) { out.Header[name] = append(out.Header[name], value) })
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // or net/http would add its own
	}
	return out
}

// eachOutgoingField calls give for each field line that the service gets with a guarded request.
func (g *sender) eachOutgoingField(r *http.Request, a *retrysafe.Attempt, give func(name, value string)) {
	traced := g.traceFields(a)
	for name, values := range traced {
		for _, v := range values {
			give(name, v)
		}
	}
	for name, values := range r.Header {
		// Fields that Connection names are not passed on, except the key: no client may remove it.
		if _, ours := traced[name]; ours || unforwardedFields[name] || once.ConnectionNames(r.Header["Connection"], name) && !slices.Contains(g.keys, name) {
			continue
		}
		for _, v := range values {
			give(name, v)
		}
	}
	var number [20]byte
	give("Idempotency-Attempt", string(strconv.AppendInt(number[:0], int64(a.Number()), 10)))
	give("Idempotency-Fence", string(strconv.AppendUint(number[:0], uint64(a.Fence()), 10)))
	g.eachForwardedField(r, give)
	give("Via", viaEntry(r.ProtoMajor, r.ProtoMinor))
}

// traceFields returns the fields that carry the trace of the attempt; nil if none are set.
func (g *Gateway) traceFields(a *retrysafe.Attempt) http.Header {
	if g.propagate == nil {
		return nil
	}
	h := http.Header{}
	g.propagate(a.Context(), h)
	return h
}

// requestTo returns a copy of out for one try.
func (g *Gateway) requestTo(u *upstream, ctx context.Context, out *http.Request, body []byte) *http.Request { //nolint:revive // the upstream first reads better
	try := g.directTo(u, out.WithContext(ctx))
	if len(body) > 0 {
		try.Body, try.ContentLength = once.NewBody(body), int64(len(body))
	}
	return try
}

// rewriteUnguarded prepares an unguarded request for the service.
func (g *Gateway) rewriteUnguarded(p *httputil.ProxyRequest) {
	p.Out.URL.RawQuery = p.In.URL.RawQuery // as received: ReverseProxy has changed it
	for _, name := range forwardedFields {
		delete(p.Out.Header, name)
	}
	g.eachForwardedField(p.In, func(name, value string) { p.Out.Header[name] = []string{value} })
	p.Out.Header["Via"] = append(p.Out.Header["Via"], viaEntry(p.In.ProtoMajor, p.In.ProtoMinor))
}

// viaEntry returns the Via entry of the gateway (RFC 9110, section 7.6.3).
func viaEntry(major, minor int) string {
	switch {
	case major >= 2:
		return strconv.Itoa(major) + " retrysafe"
	case minor == 0:
		return "1.0 retrysafe"
	}
	return "1.1 retrysafe"
}

// forwardedFields say how a request reached the gateway. Only the gateway may set them.
var forwardedFields = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", clientCert, "Client-Cert-Chain"}

// clientCert is the field with the client's certificate (RFC 9440).
const clientCert = "Client-Cert"

// eachForwardedField calls give for the fields in which proxies say how a request arrived. It takes
// over what a trusted server before the gateway says.
func (g *Gateway) eachForwardedField(r *http.Request, give func(name, value string)) {
	if from, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if prior := r.Header["X-Forwarded-For"]; len(prior) > 0 {
			from = strings.Join(prior, ", ") + ", " + from
		}
		give("X-Forwarded-For", from)
	}
	switch told := r.Header[clientCert]; {
	case g.trustsPeer(r): // the certificate of the connection is its own
		if len(told) == 1 {
			give(clientCert, told[0])
		}
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		give(clientCert, ":"+base64.StdEncoding.EncodeToString(r.TLS.PeerCertificates[0].Raw)+":")
	}
	host, proto := g.requestedAddress(r)
	give("X-Forwarded-Host", host)
	give("X-Forwarded-Proto", proto)
}

// trustsPeer reports whether r comes from one of the trusted proxies.
func (g *Gateway) trustsPeer(r *http.Request) bool {
	return len(g.trusted) > 0 && g.fromTrustedProxy(r)
}

// requestedAddress returns the host and the scheme by which the client has asked, as far as that is
// known.
func (g *Gateway) requestedAddress(r *http.Request) (host, proto string) {
	host, proto = r.Host, "http"
	if r.TLS != nil {
		proto = "https"
	}
	if g.trustsPeer(r) {
		if told := r.Header["X-Forwarded-Proto"]; len(told) == 1 && (told[0] == "http" || told[0] == "https") {
			proto = told[0]
		}
		if told := r.Header["X-Forwarded-Host"]; len(told) == 1 && told[0] != "" {
			host = told[0]
		}
	}
	return host, proto
}

var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// unforwardedFields are fields of a request that are not passed on: those of one connection;
// Expect, since the body is here and there is nothing to wait for; the length, which is sent with
// the body; and forwardedFields.
var unforwardedFields = func() map[string]bool {
	set := map[string]bool{"Expect": true, "Content-Length": true}
	for _, name := range slices.Concat(hopByHop, forwardedFields) {
		set[name] = true
	}
	return set
}()

func dropHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// directTo directs a copy of a request to u, and sets u's host unless the client's is kept. Keys do
// not contain the client's host, so the service should not depend on it.
func (g *Gateway) directTo(u *upstream, out *http.Request) *http.Request {
	address, host := *out.URL, out.Host
	out.URL = &address
	p := httputil.ProxyRequest{Out: out}
	p.SetURL(u.url)
	if g.keepHost {
		out.Host = host
	}
	return out
}
