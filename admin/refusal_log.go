package admin

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// logLimiter lets lines of one kind into the log at most once a second: callers can ask as often as
// they like.
type logLimiter struct {
	mu       sync.Mutex
	loggedAt time.Time
	leftOut  int // lines that were left out since then
}

// allow reports whether a line is written, and how many before it were not.
func (f *logLimiter) allow() (left int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.loggedAt.IsZero() || now.Sub(f.loggedAt) >= time.Second {
		left, f.leftOut, f.loggedAt = f.leftOut, 0, now
		return left, true
	}
	f.leftOut++
	return 0, false
}

// logFailure says in the log that a request could not be served, for a reason that the caller is
// not told. The line has no key: action is a route, not a path.
func (s *Server) logFailure(action string, err error) {
	if left, ok := s.failures.allow(); ok {
		s.o.Logger.Warn("admin: a request failed", "path", action, "error", err, "left_out", left)
	}
}

// reportRefusal reports a refusal: of a caller without a token or a role, of a page of another
// site, or of a form. The line has no token, and no key: action is a route, not a path.
func (s *Server) reportRefusal(r *http.Request, name, action string, p *Problem) {
	if !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnsupportedMediaType}, p.Status) {
		return
	}
	if s.o.OnRefused != nil {
		s.o.OnRefused(p.Code)
	}
	if left, ok := s.refusals.allow(); ok {
		s.o.Logger.Warn("admin: a request was refused", "caller", name, "address", r.RemoteAddr, "action", action, "code", p.Code, "left_out", left)
	}
}
