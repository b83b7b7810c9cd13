package httpidem

import (
	"net/http"
	"slices"
)

// rated reports whether requests of a method are counted.
func (m *Middleware) rated(method string) bool {
	return slices.Contains(m.o.Limit.RateMethods, method) || slices.Contains(m.o.Limit.RateMethods, "*")
}

// tooOften counts a request, and returns a problem if it exceeds the rate. It never counts by the
// path as sent: a path has many spellings, and each would have a rate of its own.
func (m *Middleware) tooOften(r *http.Request) *Problem {
	by, what := m.o.Limit.RateBy, m.o.Limit.RateName
	if by == nil {
		by = m.o.Tenant
	}
	if what == "" {
		what = r.Pattern
	}
	who, err := by(r)
	if err != nil {
		return tenantProblem(err)
	}
	if m.o.Limit.RateBy == nil && m.account != nil {
		who = m.account(r)
	}
	if err := m.engine.Allow(r.Context(), who, what, m.o.Limit.Rate); err != nil {
		return problemOf(err, false)
	}
	return nil
}
