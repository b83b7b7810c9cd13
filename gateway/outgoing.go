package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// outgoing is a guarded request as the service gets it, but for its address, its body and its context.
func (g *sender) outgoing(r *http.Request, a *retrysafe.Attempt) *http.Request {
	out := new(http.Request)
	*out = *r
	out.Body, out.GetBody, out.ContentLength, out.TransferEncoding, out.RequestURI = http.NoBody, nil, 0, nil, ""
	out.Close, out.Trailer = false, nil
	h := make(http.Header, len(r.Header)+6)
	for name, values := range r.Header {
		if !notSentOn[name] {
			h[name] = values // which nobody changes
		}
	}
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range g.keys { // a client that names it in Connection does not take it from the service
		if values := r.Header[name]; values != nil {
			h[name] = values
		}
	}
	sayHow(h, r)
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // or net/http would add its own
	}
	numbers := [2]string{strconv.Itoa(a.N()), strconv.FormatUint(uint64(a.Fence()), 10)}
	h["Idempotency-Attempt"], h["Idempotency-Fence"] = numbers[:1:1], numbers[1:]
	out.Header = h
	return out
}

// to returns a copy of out for one try.
func to(u *upstream, ctx context.Context, out *http.Request, body []byte) *http.Request { //nolint:revive // the address first: it reads as a sentence
	try := out.WithContext(ctx)
	address := *out.URL
	try.URL = &address
	u.address(try)
	if len(body) > 0 {
		try.Body, try.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return try
}

// forwarded makes a request that is not guarded one to the service.
func forwarded(p *httputil.ProxyRequest) { sayHow(p.Out.Header, p.In) }

// sayHow says in h how the request came, in the fields that proxies use for it.
func sayHow(h http.Header, r *http.Request) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	prior := r.Header["X-Forwarded-For"]
	switch {
	case err != nil:
		delete(h, "X-Forwarded-For")
	case len(prior) > 0:
		h["X-Forwarded-For"] = []string{strings.Join(prior, ", ") + ", " + from}
	default:
		h["X-Forwarded-For"] = []string{from}
	}
	h["X-Forwarded-Host"] = []string{r.Host}
	h["X-Forwarded-Proto"] = plainHTTP
	if r.TLS != nil {
		h["X-Forwarded-Proto"] = overTLS
	}
}

var plainHTTP, overTLS = []string{"http"}, []string{"https"}

var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// notSentOn are fields of a request that end here: those of one connection; Expect, since the body is here and there is nothing to wait
// for; and those that say how a request came, which only we say.
var notSentOn = func() map[string]bool {
	set := map[string]bool{"Expect": true, "Forwarded": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true}
	for _, name := range hopByHop {
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
