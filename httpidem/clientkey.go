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

// ContextWithKey gives ctx the key of a logical action: one click, one payment, one job. The
// requests that a [Transport] sends under it carry that key, and a repeat of the action must come
// with the same one, so store it with the action if it is to survive the process.
//
// Requests to different operations may share it, since servers keep the keys of each method and
// path apart. Two different requests to one operation may not (the second would be told 422,
// payload-mismatch): give each a key of its own, for example key + "/2".
//
// A key has 1 to 255 octets of printable ASCII; that is checked when a request is sent.
func ContextWithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, clientKey{}, key)
}

// KeyFromContext returns the key that [ContextWithKey] gave ctx.
func KeyFromContext(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(clientKey{}).(string)
	return key, ok
}

// outgoingKey is the key of a request that is to be sent.
type outgoingKey struct {
	present bool   // there is one, and a server can tell repeats by it
	name    string // of the field
	line    string // to be added; empty where the request has it, or has none
}

// put copies the fields of req to try, and the key with them.
func (k *outgoingKey) put(req, try *http.Request) {
	if try.Header = req.Header.Clone(); try.Header == nil {
		try.Header = http.Header{}
	}
	if k.line != "" {
		try.Header[k.name] = []string{k.line}
	}
}

// keyFor finds the key of req, and refuses one that cannot be sent.
func (t *Transport) keyFor(req *http.Request) (outgoingKey, error) {
	k := outgoingKey{name: "Idempotency-Key"}
	if t.Header != "" {
		k.name = http.CanonicalHeaderKey(t.Header)
	}
	if !validFieldName(k.name) {
		return k, fmt.Errorf("httpidem: Transport.Header is %q, which is no header name; nothing was sent", k.name)
	}
	for name, lines := range req.Header { // the name may be written in any case
		if strings.EqualFold(name, k.name) {
			k.present = len(lines) == 1 && lines[0] != ""
			return k, nil
		}
	}
	if unkeyed(req.Method) || req.Method == http.MethodConnect {
		return k, nil
	}
	key, given := KeyFromContext(req.Context())
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

// unkeyed tells the methods that are given no key.
func unkeyed(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

var errElsewhere = errors.New("httpidem: the server redirects this request to another host, which is not sent the key; " +
	"nothing was sent there: ask that host itself, or set the header of the key in CheckRedirect if it is to have it")

// elsewhere tells whether req follows a redirect away from the host that was asked first.
func elsewhere(req *http.Request) bool {
	first := req
	for first.Response != nil {
		if first = first.Response.Request; first == nil {
			return true // nobody knows who was asked
		}
	}
	return first != req && !sameHost(first.URL, req.URL)
}

// sameHost compares origins (RFC 6454), and takes https at its usual port for the same as http at
// its own: a key may climb, not fall.
func sameHost(first, next *url.URL) bool {
	if first == nil || next == nil || !strings.EqualFold(first.Hostname(), next.Hostname()) {
		return false
	}
	from, to := origin(first), origin(next)
	return from == to || from == "http:80" && to == "https:443"
}

// origin is the scheme and the port of u.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return net.JoinHostPort(scheme, port)
}
