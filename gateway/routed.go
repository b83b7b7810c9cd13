package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/httpsig"
)

// routed is a compiled route.
type routed struct {
	*matcher
	name            string
	methods         []string
	every           bool // methods do not matter
	guards          bool // it requires something of its requests
	exactCase       bool
	exactExtension  bool
	handler, status http.Handler
	cors            *cors
	signed          *httpsig.Verifier // nil: requests need no signature
}

// find returns what serves r, or nil if the service may read the path as that of another route.
func (g *Gateway) find(r *http.Request) *routed {
	if len(g.routes) == 0 {
		return g.rest
	}
	if strings.Contains(r.URL.Path, `\`) {
		return nil // some services read it as a slash
	}
	segments := split(r.URL.Path)
	decoded := g.route(r.Method, segments)
	if g.other(r.Method, r.URL.Path, segments, decoded) {
		return nil
	}
	if r.URL.RawPath == "" {
		return decoded
	}
	var apart []string // an encoded slash is part of its segment
	for _, s := range split(r.URL.EscapedPath()) {
		if one, err := url.PathUnescape(s); err == nil {
			s = one
		}
		apart = append(apart, s)
	}
	if g.route(r.Method, apart) != decoded {
		return nil
	}
	return decoded
}

// route returns the first route that matches, or the rest.
func (g *Gateway) route(method string, segments []string) *routed {
	return g.first(method, func(r *routed) bool { return r.matches(segments) })
}

// first returns the first route for a method for which matches returns true, or the rest.
func (g *Gateway) first(method string, matches func(*routed) bool) *routed {
	for _, r := range g.routes {
		if (r.every || slices.Contains(r.methods, method)) && matches(r) {
			return r
		}
	}
	return g.rest
}

// verified passes requests to next that are signed as the route requires.
func (x *routed) verified(next http.Handler) http.Handler {
	if x.signed == nil {
		return next
	}
	return x.signed.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The fields that it names would be removed on the way to the service, though they were
		// signed.
		delete(r.Header, "Connection")
		next.ServeHTTP(w, r)
	}))
}
