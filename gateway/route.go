package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpsig"
)

// Route says what is different for the requests that it matches. Of several, the first counts.
type Route struct {
	// Match is a method and a path, "POST /orders/**": * is one segment, ** at the end is any rest,
	// including none. The method * stands for every guarded method, and for every method at all on
	// a route with a Signature or a Rate. Paths are compared decoded and cleaned, so that
	// percent-encoding, doubled slashes and dot segments cannot bypass a route. A path that can be
	// read in two ways (%2F, \) is refused if that makes a difference. A path that only a lenient
	// service reads as that of a guarded route is refused too (/Votes, /votes;a=1, /votes.json,
	// /votes. and similar), unless a route without * names it.
	Match string
	// Guard is as in [Options]. If Match names a method, that method is guarded.
	Guard httpidem.Options
	// ExactCase says that the service distinguishes /Votes from /votes, so that a path in other
	// case is not refused.
	ExactCase bool
	// ExactExtension says that /votes.json is not /votes to the service, so that a path that differs
	// from Match by an extension is not refused.
	ExactExtension bool
	// TimeoutAnswer is as in [Options]; zero inherits.
	TimeoutAnswer time.Duration
	// CORS is as in [Options]; nil: the service sets its own CORS headers.
	CORS *CORS
	// Signature is as in [Options]; nil: requests need no signature.
	Signature *httpsig.Options
}

func (r *Route) validate(base retrysafe.Policy) error {
	p, err := parsePattern(r.Match)
	if err != nil {
		return err
	}
	err = errors.Join(validateGuard(*guardOf(r.Guard, p), r.TimeoutAnswer, r.Signature != nil, base), r.CORS.validate(), validateSignature(r.Signature))
	if err != nil {
		return fmt.Errorf("route %q: %w", r.Match, err)
	}
	return nil
}

// guardOf returns o with the method of the pattern.
func guardOf(o httpidem.Options, p *matcher) *httpidem.Options {
	if o.RateMethods = []string{p.method}; o.Rate.PerSecond <= 0 {
		o.RateMethods = nil
	}
	if p.method != "*" && o.Key != httpidem.Off {
		o.Methods = []string{p.method}
	}
	return &o
}

// matcher is a parsed pattern.
type matcher struct {
	method   string
	segments []string
	rest     bool // ends in **
}

func parsePattern(text string) (*matcher, error) {
	method, p, ok := strings.Cut(text, " ")
	if !ok || !strings.HasPrefix(p, "/") || strings.ContainsAny(p, " ?#%") {
		return nil, fmt.Errorf("%q is no method and path; write it like POST /orders/**, the path decoded", text)
	}
	if method != "*" && (method != strings.ToUpper(method) || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "") {
		return nil, fmt.Errorf("%q is no method; write it in capitals, or * for all", method)
	}
	m := &matcher{method: method, segments: split(p)}
	if last := len(m.segments) - 1; last >= 0 && m.segments[last] == "**" {
		m.segments, m.rest = m.segments[:last], true
	}
	if slices.ContainsFunc(m.segments, func(s string) bool { return s != "*" && strings.Contains(s, "*") }) {
		return nil, errors.New("* stands for a whole segment, and ** only at the end of a path")
	}
	return m, nil
}

// split cuts a path into segments. It ignores a slash at the end.
func split(p string) []string {
	p = strings.Trim(path.Clean("/"+p), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

func (m *matcher) matches(segments []string) bool {
	return m.matchesBy(segments, func(a, b string) bool { return a == b })
}

func (m *matcher) matchesBy(segments []string, same func(a, b string) bool) bool {
	if len(segments) < len(m.segments) || !m.rest && len(segments) != len(m.segments) {
		return false
	}
	for i, s := range m.segments {
		if s != "*" && !same(s, segments[i]) {
			return false
		}
	}
	return true
}

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
