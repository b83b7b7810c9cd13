package httpsig

import (
	"errors"
	"net/http"
	"strings"
)

// requestTarget is the part of a request that is not in its fields.
type requestTarget struct {
	method, scheme, authority string
	path, query               string // as sent; the query with its "?", or empty
}

var (
	errTarget = errors.New("the request target is neither a path nor an address of http or https")
	errHost   = errors.New("the host cannot be signed; use printable ASCII without a zone, and Punycode for other letters")
)

// receivedTarget returns the target of a request that a server received. It uses what was sent,
// which is what was signed: RequestURI, which no handler changes. URL.Path is decoded, and
// URL.RawPath is empty unless the path has an unusual escape.
func receivedTarget(r *http.Request, scheme string) (requestTarget, error) {
	if scheme == "" {
		scheme = "http"
		if r.TLS != nil {
			scheme = "https"
		}
	}
	return targetOf(r.Method, scheme, r.Host, r.RequestURI)
}

// outgoingTarget returns the target of a request that a client is about to send.
func outgoingTarget(r *http.Request) (requestTarget, error) {
	if r.URL == nil || r.URL.Opaque != "" || r.URL.Host == "" || r.Method == http.MethodConnect {
		return requestTarget{}, errTarget
	}
	method, host := r.Method, r.Host
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = r.URL.Host
	}
	return targetOf(method, strings.ToLower(r.URL.Scheme), host, r.URL.RequestURI())
}

func targetOf(method, scheme, host, uri string) (t requestTarget, err error) {
	t = requestTarget{method: method, scheme: scheme}
	if t.authority, err = normalizeAuthority(host, scheme); err != nil {
		return t, err
	}
	if !strings.HasPrefix(uri, "/") { // absolute form: RFC 9112, section 3.2.2
		_, rest, found := strings.Cut(uri, "://")
		if head := strings.ToLower(uri[:len(uri)-len(rest)]); !found || head != "http://" && head != "https://" {
			return t, errTarget
		}
		uri = rest[len(cutBefore(rest, "/?")):]
		if !strings.HasPrefix(uri, "/") {
			uri = "/" + uri
		}
	}
	t.path = cutBefore(uri, "?")
	t.query = uri[len(t.path):]
	return t, nil
}

// cutBefore returns s up to the first of chars.
func cutBefore(s, chars string) string {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i]
	}
	return s
}

// normalizeAuthority returns a host in its normal form: in lower case, and without the default port
// of the scheme (RFC 9421, section 2.2.3).
func normalizeAuthority(host, scheme string) (string, error) {
	if host == "" || !isPrintable(host) || strings.ContainsAny(host, "%/@?#\\ ") {
		return "", errHost
	}
	host = strings.TrimSuffix(strings.ToLower(host), ":")
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return host, nil
}
