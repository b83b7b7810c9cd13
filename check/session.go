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
	target  *Target
	options *Options
	sender  *sender
	// distinct reports that two operations have different answers, so that an answer shows which
	// operation it belongs to.
	distinct bool
	observed *observations

	shown []Exchange
}

// maxShown bounds the exchanges of a result.
const maxShown = 8

// stopPanic is what a check panics with when it cannot go on; decideCheck turns it into a result or
// into the error of the examination.
type stopPanic struct{ err error }

// sendAndShow sends op as sendUnshown does, and shows its last answer in the result as step.
func (s *session) sendAndShow(ctx context.Context, step string, op operation) reply {
	r := s.sendUnshown(ctx, op)
	s.showExchange(step, op, &r)
	return r
}

// sendUnshown sends op, and again while it is answered 429, at most five times more: 429 asks for
// the same request later, and says nothing about the key.
func (s *session) sendUnshown(ctx context.Context, op operation) reply {
	r := s.sendOnce(ctx, op)
	for range 5 {
		if r.err != nil || r.status != http.StatusTooManyRequests {
			break
		}
		s.wait(ctx, pauseOf(&r))
		r = s.sendOnce(ctx, op)
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

// sendOnce sends op once.
func (s *session) sendOnce(ctx context.Context, op operation) reply {
	s.mustReserve(ctx, 1)
	request := s.buildRequest(&op)
	r := s.sender.send(ctx, s.sender.client, request, bytes.NewReader(request.Body), nil)
	if r.isSuccess() {
		s.observed.slowestSuccess = max(s.observed.slowestSuccess, r.took)
	}
	return r
}

// mustReserve waits for the right to send n requests, and ends the examination if there is none.
func (s *session) mustReserve(ctx context.Context, n int) {
	if err := s.sender.reserve(ctx, n); err != nil {
		panic(stopPanic{err})
	}
}

// showExchange adds an exchange to the result.
func (s *session) showExchange(step string, op operation, r *reply) {
	if len(s.shown) == maxShown {
		return
	}
	curl := s.buildRequest(&op).curlWith(op.shellVariables(s.target.secretNames()))
	e := Exchange{Step: step, Curl: curl, Status: r.status, Took: r.took, Body: cutBody(r.body)}
	if r.err != nil {
		e.Error = r.err.Error()
	}
	if e.Header = r.header.Clone(); e.Header != nil {
		for name := range e.Header {
			if _, secret := secretVariable(name, s.target.secretNames()); secret {
				e.Header[name] = []string{"(secret)"}
			}
		}
	}
	s.shown = append(s.shown, e)
}

// cutBody returns what is shown of a body.
func cutBody(b []byte) string {
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
		panic(stopPanic{ctx.Err()})
	}
}
