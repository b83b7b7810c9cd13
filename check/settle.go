package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// settles is the largest number of requests that settle sends with the default patience.
const settles = 24

// learned is what an examination has seen of the API and need not wait for again. The checks run
// one after another.
type learned struct {
	// refuses is the status, 409 or 425, with which each duplicate is answered although the first
	// request has ended. Zero: none is.
	refuses int
	// waited is how long that was looked at.
	waited time.Duration
	// slowest is the longest time after which one request was answered with success.
	slowest time.Duration
}

// notes says for a report what was learned.
func (l *learned) notes() []string {
	if l.refuses == 0 {
		return nil
	}
	return []string{fmt.Sprintf("A duplicate of a request that was answered with success is answered %d, also after %s. "+
		"So later checks did not wait for another answer.", l.refuses, l.waited)}
}

// settle sends op until the answer is no longer that the first request runs, or the patience ends,
// and returns the last answer. It shows that answer only. Where duplicates are refused for good, it
// sends op twice at most.
func (s *session) settle(ctx context.Context, step string, op operation) reply {
	if s.learned.refuses == 0 {
		return s.settleFully(ctx, step, op)
	}
	r := s.once(ctx, op)
	if s.unsettled(&r) {
		if !r.running() {
			return s.settleFully(ctx, step, op)
		}
		// the first request may run still, and may end without an answer that is kept
		s.wait(ctx, min(2*s.learned.slowest, s.o.Patience))
		r = s.once(ctx, op)
	}
	s.show(step, op, &r)
	return r
}

// settleAfter is settle for an operation to which replies are answers. If one of them is a success,
// the first request has ended: an answer that says for the whole patience that it runs says so of
// each duplicate.
func (s *session) settleAfter(ctx context.Context, step string, op operation, replies ...reply) reply {
	r := s.settle(ctx, step, op)
	if r.running() && s.learned.refuses == 0 && anyOK(replies) {
		s.learned.refuses, s.learned.waited = r.status, s.o.Patience
	}
	return r
}

// settleFully is settle for an operation whose first request cannot have ended with success: it
// waits for the patience, whatever was learned.
func (s *session) settleFully(ctx context.Context, step string, op operation) reply {
	deadline := time.Now().Add(s.o.Patience)
	for pause := 25 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		r := s.once(ctx, op)
		if !s.unsettled(&r) || time.Now().After(deadline) {
			s.show(step, op, &r)
			return r
		}
		s.wait(ctx, pause)
	}
}

// unsettled reports whether an answer may be another one a moment later: the first request runs, or
// the service is about to be ready.
func (s *session) unsettled(r *reply) bool {
	return r.err != nil && !errors.As(r.err, new(*HostError)) || r.running() ||
		r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests
}
