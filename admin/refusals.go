package admin

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// refusals says in the log who was refused, at most once a second: callers that are not let in can
// ask as often as they like.
type refusals struct {
	mu   sync.Mutex
	told time.Time
	left int // refusals since then without a line
}

// turn reports whether a refusal gets a line, and how many before it got none.
func (f *refusals) turn() (left int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.told.IsZero() || now.Sub(f.told) >= time.Second {
		left, f.left, f.told = f.left, 0, now
		return left, true
	}
	f.left++
	return 0, false
}

// refused reports a refusal: of a caller without a token or a role, of a page of another site, or
// of a form. The line has no token, and no key: action is a route, not a path.
func (s *Server) refused(r *http.Request, name, action string, p *Problem) {
	if !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnsupportedMediaType}, p.Status) {
		return
	}
	if s.o.OnRefused != nil {
		s.o.OnRefused(p.Code)
	}
	if left, ok := s.refusals.turn(); ok {
		s.o.Logger.Warn("admin: a request was refused", "caller", name, "address", r.RemoteAddr, "action", action, "code", p.Code, "left_out", left)
	}
}
