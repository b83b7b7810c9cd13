package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/route"
	"github.com/retrysafe/retrysafe/gateway/internal/signed"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
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
	// ExactExtension says that /votes.json is not /votes to the service, so that a path that
	// differs from Match by an extension is not refused.
	ExactExtension bool
	// TimeoutAnswer is as in [Options]; zero inherits.
	TimeoutAnswer time.Duration
	// CORS is as in [Options]; nil: the service sets its own CORS headers.
	CORS *CORS
	// Signature is as in [Options]; nil: requests need no signature.
	Signature *httpsig.Options
}

// Validate reports what is wrong with r for an engine with the policy base. It returns nil if r is
// valid.
func (r *Route) Validate(base retrysafe.Policy) error {
	p, err := route.Parse(r.Match)
	if err != nil {
		return err
	}
	err = errors.Join(validateGuard(*guardForPattern(r.Guard, p), r.TimeoutAnswer, r.Signature != nil, base), r.CORS.Validate(), signed.Validate(r.Signature))
	if err != nil {
		return fmt.Errorf("route %q: %w", r.Match, err)
	}
	return nil
}

// guardForPattern returns o with the method of the pattern.
func guardForPattern(o httpidem.Options, p *route.Pattern) *httpidem.Options {
	if o.Limit.RateMethods = []string{p.Method}; o.Limit.Rate.PerSecond <= 0 {
		o.Limit.RateMethods = nil
	}
	if p.Method != "*" && o.Key != httpidem.Off {
		o.Request.Methods = []string{p.Method}
	}
	return &o
}

// hasRequirements reports whether a route requires anything of the requests that it matches.
func (r *Route) hasRequirements() bool {
	return r.Guard.Key != httpidem.Off || r.Signature != nil || r.Guard.Limit.Rate.PerSecond > 0 || r.Guard.Limit.Age != nil
}
