package config

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/internal/route"
)

// reachableRoutes are the routes that get requests, to find those that get none.
type reachableRoutes []routeReach

type routeReach struct {
	pattern *route.Pattern
	methods []string // nil: every method
	match   string
	line    int
}

// addRoute returns an error if an earlier route takes all requests of r, whose match is at line.
func (all *reachableRoutes) addRoute(r *gateway.Route, line int) error {
	p, err := route.Parse(r.Match)
	if err != nil {
		return err
	}
	now := routeReach{pattern: p, match: r.Match, line: line}
	switch {
	case p.Method != "*":
		now.methods = []string{p.Method}
	case r.Signature == nil && r.Guard.Limit.Rate.PerSecond <= 0:
		now.methods = []string{http.MethodPost, http.MethodPatch} // the guarded ones
	}
	for _, first := range *all {
		if first.covers(&now) {
			return fmt.Errorf("route %q: match gets no request: route %q on line %d comes first and takes them all; "+
				"put this one before it, or leave it out", r.Match, first.match, first.line)
		}
	}
	*all = append(*all, now)
	return nil
}

// covers reports whether a takes every request that r matches.
func (a *routeReach) covers(r *routeReach) bool {
	other := func(method string) bool { return !slices.Contains(a.methods, method) }
	if a.methods != nil && (r.methods == nil || slices.ContainsFunc(r.methods, other)) {
		return false
	}
	return a.pattern.Covers(r.pattern)
}
