package check

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// session is what one check works with.
type session struct {
	target *Target
	o      *Options
	sender *sender
	// distinct reports that two operations have different answers, so that an answer shows which
	// operation it belongs to.
	distinct bool
	learned  *learned

	shown []Exchange
}

// maxShown bounds the exchanges of a result.
const maxShown = 8

// stop is what a check panics with when it cannot go on; examine turns it into a result or into the
// error of the examination.
type stop struct{ err error }

// send sends op as quiet does, and shows its last answer in the result as step.
func (s *session) send(ctx context.Context, step string, op operation) reply {
	r := s.quiet(ctx, op)
	s.show(step, op, &r)
	return r
}

// quiet sends op, and again while it is answered 429, at most five times more: 429 asks for the
// same request later, and says nothing about the key.
func (s *session) quiet(ctx context.Context, op operation) reply {
	r := s.once(ctx, op)
	for range 5 {
		if r.err != nil || r.status != http.StatusTooManyRequests {
			break
		}
		s.wait(ctx, pauseOf(&r))
		r = s.once(ctx, op)
	}
	return r
}

// pauseOf returns how long the API asks to wait, within bounds.
func pauseOf(r *reply) time.Duration {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil {
		return 250 * time.Millisecond
	}
	return time.Duration(min(max(seconds, 0), 5)) * time.Second
}

// once sends op once.
func (s *session) once(ctx context.Context, op operation) reply {
	s.reserve(ctx, 1)
	request := s.build(&op)
	r := s.sender.send(ctx, s.sender.client, request, bytes.NewReader(request.Body), nil)
	if r.ok() {
		s.learned.slowest = max(s.learned.slowest, r.took)
	}
	return r
}

// reserve waits for the right to send n requests, and ends the examination if there is none.
func (s *session) reserve(ctx context.Context, n int) {
	if err := s.sender.reserve(ctx, n); err != nil {
		panic(stop{err})
	}
}

// show adds an exchange to the result.
func (s *session) show(step string, op operation, r *reply) {
	if len(s.shown) == maxShown {
		return
	}
	curl := s.build(&op).curl(op.variables(s.target.secrets()))
	e := Exchange{Step: step, Curl: curl, Status: r.status, Took: r.took, Body: cut(r.body)}
	if r.err != nil {
		e.Error = r.err.Error()
	}
	if e.Header = r.header.Clone(); e.Header != nil {
		for name := range e.Header {
			if _, secret := secretVariable(name, s.target.secrets()); secret {
				e.Header[name] = []string{"(secret)"}
			}
		}
	}
	s.shown = append(s.shown, e)
}

// cut returns what is shown of a body.
func cut(b []byte) string {
	const most = 2048
	if len(b) > most {
		b = b[:most]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// wait waits for d, or until the examination is ended.
func (s *session) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(stop{ctx.Err()})
	}
}
