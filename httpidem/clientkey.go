package httpidem

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

type clientKey struct{}

// ContextWithKey returns a context that carries the key of a logical action: one click, one
// payment, one job. A [Transport] sends the requests under it with that key. A retry of the action
// must use the same key; store the key with the action if retries must survive the process.
//
// Requests to different operations may share a key, since servers keep the keys of each method and
// path apart. Two different requests to one operation may not: the second gets 422
// payload-mismatch. Give each its own key, for example key + "/2".
//
// A key has 1 to 255 octets of printable ASCII. That is checked when a request is sent.
func ContextWithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, clientKey{}, key)
}

// KeyFrom returns the key that [ContextWithKey] put into ctx.
func KeyFrom(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(clientKey{}).(string)
	return key, ok
}

// outgoingKey is the key of a request to be sent.
type outgoingKey struct {
	present bool   // the request has a key, so a server can recognise duplicates
	name    string // name of the header field
	line    string // to be added; empty if the request already has it, or has no key
}

// put copies the fields of req to try and adds the key.
func (k *outgoingKey) put(req, try *http.Request) {
	if try.Header = req.Header.Clone(); try.Header == nil {
		try.Header = http.Header{}
	}
	if k.line != "" {
		try.Header[k.name] = []string{k.line}
	}
}

// keyFor returns the key of req, or an error if the key cannot be sent.
func (t *Transport) keyFor(req *http.Request) (outgoingKey, error) {
	k := outgoingKey{name: "Idempotency-Key"}
	if t.Header != "" {
		k.name = http.CanonicalHeaderKey(t.Header)
	}
	if !IsToken(k.name) {
		return k, fmt.Errorf("httpidem: Transport.Header is %q, which is no header name; nothing was sent", k.name)
	}
	for name, lines := range req.Header { // the name may be in any case
		if strings.EqualFold(name, k.name) {
			k.present = len(lines) == 1 && lines[0] != ""
			return k, nil
		}
	}
	if unkeyed(req.Method) || req.Method == http.MethodConnect {
		return k, nil
	}
	key, given := KeyFrom(req.Context())
	switch {
	case given && elsewhere(req):
		if idempotent(req.Method) {
			return k, nil
		}
		return k, errElsewhere
	case !given && t.NewKey == nil:
		return k, nil
	case !given:
		key = t.NewKey()
	}
	line, err := FormatKey(key)
	if err != nil {
		return k, fmt.Errorf("httpidem: the key of this request cannot be sent: %w; nothing was sent", err)
	}
	k.present, k.line = true, line
	return k, nil
}

// unkeyed reports whether requests of a method get no key.
func unkeyed(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

var errElsewhere = errors.New("httpidem: the server redirects this request to another host, which is not sent the key; " +
	"nothing was sent there: ask that host itself, or set the header of the key in CheckRedirect if it is to have it")

// elsewhere reports whether req follows a redirect to another host than that of the first request.
func elsewhere(req *http.Request) bool {
	first := req
	for first.Response != nil {
		if first = first.Response.Request; first == nil {
			return true // the first request is not known
		}
	}
	return first != req && !sameHost(first.URL, req.URL)
}

// sameHost reports whether the origins (RFC 6454) are the same. It also accepts a redirect from
// http at port 80 to https at port 443: a key may move to a safer connection, never to a less safe
// one.
func sameHost(first, next *url.URL) bool {
	if first == nil || next == nil || !strings.EqualFold(first.Hostname(), next.Hostname()) {
		return false
	}
	from, to := origin(first), origin(next)
	return from == to || from == "http:80" && to == "https:443"
}

// origin returns the scheme and the port of u.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return net.JoinHostPort(scheme, port)
}
