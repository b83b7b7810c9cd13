package admin

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// seldom lets lines of one kind into the log at most once a second: callers can ask as often as
// they like.
type seldom struct {
	mu   sync.Mutex
	told time.Time
	left int // lines that were left out since then
}

// turn reports whether a line is written, and how many before it were not.
func (f *seldom) turn() (left int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.told.IsZero() || now.Sub(f.told) >= time.Second {
		left, f.left, f.told = f.left, 0, now
		return left, true
	}
	f.left++
	return 0, false
}

// failed says in the log that a request could not be served, for a reason that the caller is not
// told. The line has no key: action is a route, not a path.
func (s *Server) failed(action string, err error) {
	if left, ok := s.failures.turn(); ok {
		s.o.Logger.Warn("admin: a request failed", "path", action, "error", err, "left_out", left)
	}
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
