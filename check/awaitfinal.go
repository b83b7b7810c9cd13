package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// maxFinalRequests is the largest number of requests that awaitFinal sends with the default
// patience.
const maxFinalRequests = 24

// observations is what an examination has seen of the API and need not wait for again. The checks
// run one after another.
type observations struct {
	// duplicateStatus is the status, 409 or 425, with which each duplicate is answered although the
	// first request has ended. Zero: none is.
	duplicateStatus int
	// waited is how long that was looked at.
	waited time.Duration
	// slowestSuccess is the longest time after which one request was answered with success.
	slowestSuccess time.Duration
}

// reportNotes says for a report what was learned.
func (l *observations) reportNotes() []string {
	if l.duplicateStatus == 0 {
		return nil
	}
	return []string{fmt.Sprintf("A duplicate of a request that was answered with success is answered %d, also after %s. "+
		"So later checks did not wait for another answer.", l.duplicateStatus, l.waited)}
}

// awaitFinal sends op until the answer is no longer that the first request runs, or the patience
// ends, and returns the last answer. It shows that answer only. Where duplicates are refused for
// good, it sends op twice at most.
func (s *session) awaitFinal(ctx context.Context, step string, op operation) reply {
	if s.observed.duplicateStatus == 0 {
		return s.awaitFinalFully(ctx, step, op)
	}
	r := s.sendOnce(ctx, op)
	if s.mayChange(&r) {
		if !r.saysRunning() {
			return s.awaitFinalFully(ctx, step, op)
		}
		// the first request may run still, and may end without an answer that is kept
		s.wait(ctx, min(2*s.observed.slowestSuccess, s.options.Patience))
		r = s.sendOnce(ctx, op)
	}
	s.showExchange(step, op, &r)
	return r
}

// awaitFinalAfter is awaitFinal for an operation to which replies are answers. If one of them is a
// success, the first request has ended: an answer that says for the whole patience that it runs
// says so of each duplicate.
func (s *session) awaitFinalAfter(ctx context.Context, step string, op operation, replies ...reply) reply {
	r := s.awaitFinal(ctx, step, op)
	if r.saysRunning() && s.observed.duplicateStatus == 0 && anyOK(replies) {
		s.observed.duplicateStatus, s.observed.waited = r.status, s.options.Patience
	}
	return r
}

// awaitFinalFully is awaitFinal for an operation whose first request cannot have ended with
// success: it waits for the patience, whatever was learned.
func (s *session) awaitFinalFully(ctx context.Context, step string, op operation) reply {
	deadline := time.Now().Add(s.options.Patience)
	for pause := 25 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		r := s.sendOnce(ctx, op)
		if !s.mayChange(&r) || time.Now().After(deadline) {
			s.showExchange(step, op, &r)
			return r
		}
		s.wait(ctx, pause)
	}
}

// mayChange reports whether an answer may be another one a moment later: the first request runs, or
// the service is about to be ready.
func (s *session) mayChange(r *reply) bool {
	return r.err != nil && !errors.As(r.err, new(*HostError)) || r.saysRunning() ||
		r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests
}
