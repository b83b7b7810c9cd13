package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Route is what differs for the requests that it matches; of several the first counts.
type Route struct {
	// Match is a method and a path, "POST /orders/**": * is one segment, ** at the end any rest, also none. The method * is every
	// guarded one. Paths are compared decoded and cleaned, so that no spelling of a path goes around a route.
	Match string
	// Guard is as in [Options]. Where Match names a method, that one is guarded.
	Guard httpidem.Options
	// TimeoutAnswer is as in [Options]; zero inherits.
	TimeoutAnswer time.Duration
}

func (r *Route) validate(base retrysafe.Policy) error {
	p, err := parsePattern(r.Match)
	if err != nil {
		return err
	}
	if err := validateGuard(*guardOf(r.Guard, p), r.TimeoutAnswer, base); err != nil {
		return fmt.Errorf("route %q: %w", r.Match, err)
	}
	return nil
}

// guardOf has the method of the pattern.
func guardOf(o httpidem.Options, p *matcher) *httpidem.Options {
	if p.method != "*" && o.Key != httpidem.Off {
		o.Methods = []string{p.method}
	}
	return &o
}

// matcher is a pattern, read.
type matcher struct {
	method   string
	segments []string
	rest     bool // ends in **
}

func parsePattern(text string) (*matcher, error) {
	method, p, ok := strings.Cut(text, " ")
	if !ok || !strings.HasPrefix(p, "/") || strings.ContainsAny(p, " ?#") {
		return nil, fmt.Errorf("%q is no method and path; write it like POST /orders/**", text)
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

// split cuts a path into segments. A slash at the end counts for nothing.
func split(p string) []string {
	p = strings.Trim(path.Clean("/"+p), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

func (m *matcher) matches(method string, segments []string) bool {
	if m.method != "*" && m.method != method || len(segments) < len(m.segments) || !m.rest && len(segments) != len(m.segments) {
		return false
	}
	for i, s := range m.segments {
		if s != "*" && s != segments[i] {
			return false
		}
	}
	return true
}

// routed is a route at work.
type routed struct {
	*matcher
	handler http.Handler
}

// handler returns what serves r.
func (g *Gateway) handler(r *http.Request) http.Handler {
	if len(g.routes) > 0 {
		segments := split(r.URL.Path)
		for _, route := range g.routes {
			if route.matches(r.Method, segments) {
				return route.handler
			}
		}
	}
	return g.guarded
}
