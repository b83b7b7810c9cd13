package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

// operation is one logical action of a caller, with its own key and payload.
type operation struct {
	key, path string

	mu       sync.Mutex
	requests []callerRequest
	// the first answer that a caller has read completely and that must be stored, or the one that
	// an operator gave instead
	seen  *answer
	since time.Time
	given bool // an operator gave it
	large bool // a duplicate got an error that the answer was not kept
}

// callerRequest is one request of a caller.
type callerRequest struct {
	sent, done time.Time
	inProgress bool
	mayHoldKey bool // its attempt may have been open when the caller left
}

// answer is what a caller received, to the last byte.
type answer struct {
	status                int
	fields                string // end to end
	size                  int64
	sum                   [sha256.Size]byte
	token                 string // of the service's answers
	replayed, unconfirmed bool
	problem               *httpidem.Problem
}

func (a *answer) String() string {
	if a.problem != nil {
		return fmt.Sprint(a.status, " ", a.problem.Code)
	}
	return fmt.Sprintf("%d, replayed %v, %d bytes %x, %s", a.status, a.replayed, a.size, a.sum[:4], a.fields)
}

func (a *answer) equals(b *answer) bool {
	return a.status == b.status && a.fields == b.fields && a.size == b.size && a.sum == b.sum
}

// ofOneTransfer are the fields that may differ in a duplicate's answer.
var ofOneTransfer = []string{"Connection", "Content-Length", "Idempotency-Replayed", "Idempotency-Stored", "Set-Cookie", "Trailer", "Transfer-Encoding"}

// payloadOf returns the payload of the request with a key.
func payloadOf(key string) string {
	return "payload of " + key + strings.Repeat(" and more", len(key)*10)
}

// sendOnce sends the request of an operation once.
func (s *soak) sendOnce(ctx context.Context, op *operation) (*answer, callerRequest, error) {
	q := callerRequest{sent: time.Now()}
	a, err := s.sendUntilAnswered(ctx, op)
	q.done = time.Now()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED): // nothing listens
	case err != nil, a.problem == nil:
		q.mayHoldKey = true
	default:
		q.inProgress = a.problem.Code == "in-progress"
		q.mayHoldKey = !q.inProgress && a.problem.Code != "attempt-failed" && (a.problem.Code != "outcome-unknown" || a.status != 409)
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.requests = append(op.requests, q)
	return a, q, err
}

func (s *soak) sendUntilAnswered(ctx context.Context, op *operation) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+op.path, strings.NewReader(payloadOf(op.key)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Idempotency-Key", op.key)
	resp, err := s.client.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, token: resp.Header.Get("X-Answer"), replayed: resp.Header.Get("Idempotency-Replayed") == "true"}
	if p, ok := httpidem.ProblemFrom(resp); ok && a.token == "" {
		a.problem = p
	}
	digest := sha256.New()
	if a.size, err = io.Copy(digest, resp.Body); err != nil {
		return nil, err
	}
	digest.Sum(a.sum[:0])
	a.unconfirmed = resp.Header.Get("Idempotency-Stored") != "" || resp.Trailer.Get("Idempotency-Stored") != ""
	if a.replayed && resp.Header["Set-Cookie"] != nil {
		s.report(replays, "key %s: a repeat sets a cookie", op.key)
	}
	var fields []string
	for name, values := range resp.Header {
		// An answer that an operator gave has the Date of its replay.
		if !slices.Contains(ofOneTransfer, name) && (name != "Date" || a.token != "") {
			fields = append(fields, fmt.Sprint(name, values))
		}
	}
	slices.Sort(fields)
	a.fields = strings.Join(fields, "; ")
	return a, nil
}

// verdict is what an answer means to a caller.
type verdict uint8

const (
	again verdict = iota + 1 // retry
	// late: the outcome is not known yet. The gateway reads on, or lets the lease expire.
	late
	unknown // and stays so until an operator resolves it
	final
)

// callOnce sends one request, checks the answer against all that is known, and returns what it
// means.
func (s *soak) callOnce(ctx context.Context, op *operation) verdict {
	a, q, err := s.sendOnce(ctx, op)
	if err != nil {
		return again
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	after := op.seen != nil && q.sent.After(op.since)
	switch {
	case a.problem != nil:
		return s.judgeAnswer(op, a, after)
	case op.given && a.token == "":
		if !a.replayed || !a.equals(op.seen) {
			s.report(doubts, "key %s: resolved as %v, and a repeat is told %v", op.key, op.seen, a)
		}
		return final
	}
	m := s.service.findMessage(a.token)
	if m == nil || m.key != op.key || a.status != m.status || a.size != int64(len(m.body)) || a.sum != m.sum {
		s.report(replays, "key %s: this is not what the service answered: %v", op.key, a)
		return final
	}
	for name, values := range m.header {
		if name != "Set-Cookie" && name != "Idempotency-Outcome" && !strings.Contains("; "+a.fields+"; ", fmt.Sprint("; ", name, values, "; ")) {
			s.report(replays, "key %s: of the fields of the answer %s %v is missing: %s", op.key, name, values, a.fields)
		}
	}
	large := len(m.body) > keepable
	switch {
	case op.seen != nil && !a.equals(op.seen):
		s.report(replays, "key %s: a caller saw %v, and another is told %v", op.key, op.seen, a)
	case a.replayed && (!m.kept || large), after && !a.replayed:
		s.report(replays, "key %s: kept %v, seen before %v: %v", op.key, m.kept, after, a)
	case !m.kept || a.unconfirmed:
		return again
	case op.seen == nil:
		op.seen, op.since = a, q.done
		select {
		case s.answered <- struct{}{}:
		default:
		}
	}
	s.replayed.Add(btoi(a.replayed))
	return final
}

// judgeAnswer checks a problem document. After a complete answer, the only allowed problems are
// that the store or the gateway is unreachable.
func (s *soak) judgeAnswer(op *operation, a *answer, after bool) verdict {
	p := a.problem
	switch {
	case p.Code == "answer-not-kept":
		if p.AnswerLength == nil || !s.service.hasBody(op.key, *p.AnswerLength, p.AnswerSHA256) || *p.AnswerLength <= keepable {
			s.report(replays, "key %s: told of an answer that there never was: %+v", op.key, p)
			return final
		}
		if seen := op.seen; seen != nil && (seen.size != *p.AnswerLength || fmt.Sprintf("%x", seen.sum) != p.AnswerSHA256 || seen.status != p.AnswerStatus) {
			s.report(replays, "key %s: a caller saw %v, and another is told that it was %+v", op.key, seen, p)
		}
		op.large = true
		s.replayed.Add(1)
		return final
	case p.Code == "store-unavailable" || p.Code == "shutting-down":
		return again
	case after:
		s.report(replays, "key %s: a caller saw %v, and a repeat is told %v", op.key, op.seen, a)
		return final
	}
	switch p.Code {
	case "outcome-unknown":
		if s.reexecute && a.status == 409 {
			s.report(blocked, "key %s: under reexecute the answer is that the outcome is unknown", op.key)
		}
		if a.status == 409 {
			return unknown
		}
		return late
	case "in-progress", "attempt-failed", "lease-lost", "upstream-unreachable":
		return again
	}
	s.report(run, "key %s is told %v", op.key, a)
	return final
}

// runOperation plays a caller until it has a final answer, or learns that the outcome is unknown,
// or gives up.
func (s *soak) runOperation(op *operation, r *rand.Rand) {
	hangUps, copies, presses := 0, 1, 0
	switch r.IntN(6) {
	case 0:
		hangUps = 1 + r.IntN(2)
	case 1:
		copies = 2
	case 2:
		presses = 1 + r.IntN(2)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	v := again
	for ctx.Err() == nil && (v == again || v == late && s.reexecute) {
		switch {
		case hangUps > 0:
			hangUps--
			s.hangUp(ctx, op, r)
		case copies > 1:
			v = s.callTogether(ctx, op, copies)
			copies = 1
		default:
			v = s.callOnce(ctx, op)
		}
		// Sooner than Retry-After asks for: impatient callers are harder on a gateway.
		sleepFor(ctx, 20*time.Millisecond+time.Duration(r.IntN(300))*time.Millisecond)
	}
	if v == late {
		presses = 4 // to find out the outcome
	}
	for range presses {
		s.callOnce(ctx, op)
		sleepFor(ctx, time.Duration(r.IntN(600))*time.Millisecond)
	}
}

// callTogether sends copies at the same time.
func (s *soak) callTogether(ctx context.Context, op *operation, n int) verdict {
	all := make([]verdict, n)
	var copies sync.WaitGroup
	for i := range all {
		copies.Go(func() { all[i] = s.callOnce(ctx, op) })
	}
	copies.Wait()
	return slices.Max(all)
}

// hangUp sends a request and closes the connection: while the request is sent, or while it is
// processed.
func (s *soak) hangUp(ctx context.Context, op *operation, r *rand.Rand) {
	if r.IntN(3) > 0 {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(60))*time.Millisecond)
		defer cancel()
		s.callOnce(ctx, op)
		return
	}
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return
	}
	defer c.Close()
	body := payloadOf(op.key)
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", op.path, op.key, len(body), body[:len(body)/2])
	sleepFor(ctx, time.Duration(r.IntN(20))*time.Millisecond)
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
