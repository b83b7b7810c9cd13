package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// outgoing is a guarded request as the service gets it, but for its address and its body.
func (g *sender) outgoing(ctx context.Context, r *http.Request, a *retrysafe.Attempt) *http.Request {
	in := r.Clone(ctx)
	in.Body, in.GetBody, in.ContentLength, in.TransferEncoding, in.RequestURI = http.NoBody, nil, 0, nil, ""
	in.Close, in.Trailer = false, nil
	dropHopByHop(in.Header)
	for _, name := range []string{"Expect", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		delete(in.Header, name) // the body is here, so that there is nothing to wait for; and only we say how it came
	}
	forwarded(&httputil.ProxyRequest{In: r, Out: in})
	for _, name := range g.keys { // a client that names it in Connection does not take it from the service
		if r.Header[name] != nil {
			in.Header[name] = r.Header[name]
		}
	}
	if _, ok := in.Header["User-Agent"]; !ok {
		in.Header["User-Agent"] = []string{""} // or net/http would add its own
	}
	in.Header["Idempotency-Attempt"] = []string{strconv.Itoa(a.N())}
	in.Header["Idempotency-Fence"] = []string{strconv.FormatUint(uint64(a.Fence()), 10)}
	return in
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

// forwarded says how the request came.
func forwarded(p *httputil.ProxyRequest) {
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
}

var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

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
