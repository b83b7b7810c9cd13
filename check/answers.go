package check

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
)

var fidelity = &Check{
	ID: "fidelity", Title: "a duplicate gets the first answer, whole", Severity: Serious, Requests: 2,
	Sends: []string{"One request.", "The same request again."},
	Why:   "The client that retries has nothing but the second answer: where its order is, and in which form.",
	Wrong: []string{
		"The status or the body differs from that of the first answer.",
		"A field that clients use is missing or differs: Location, Content-Type, Content-Encoding, ETag, Link and the like.",
	},
	Fix: "Store the status, the fields and the bytes of the first answer, and send them again.",
	run: func(ctx context.Context, s *session) finding {
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		again := s.sendAndShow(ctx, "the same request again", op)
		switch {
		case !again.isSuccess():
			return notedFinding("a duplicate is answered %s, so there is nothing to compare", &again)
		case again.status != first.status:
			return brokenFinding(Serious, "the first answer is %s and the duplicate's %s", &first, &again)
		case !bytes.Equal(again.body, first.body):
			return brokenFinding(Serious, "the bodies differ: %d bytes and %d", len(first.body), len(again.body))
		}
		lost, other := compareFields(first.header, again.header)
		if len(lost) > 0 {
			return brokenFinding(Serious, "the duplicate's answer lacks or changes %s", strings.Join(lost, ", "))
		}
		if len(other) > 0 {
			return notedFinding("status, bytes and the fields that clients use are the same; these fields are not: %s", strings.Join(other, ", "))
		}
		return passedFinding("status, fields and bytes are the same")
	},
}

// used are the fields that a client needs. Set-Cookie is not among them: many services leave it
// out of replays on purpose, so that no answer opens a session twice.
var clientFields = []string{
	"Location", "Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition",
	"Content-Location", "Etag", "Last-Modified", "Link", "Www-Authenticate", "Cache-Control",
}

// answerFields are fields that belong to an answer and not to its operation.
var answerFields = []string{
	"Date", "Server", "Via", "Age", "Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "Vary", "Alt-Svc",
	"X-Request-Id", "Request-Id", "X-Correlation-Id", "Traceparent", "Tracestate", "Server-Timing", "X-Runtime",
	"X-Response-Time", "Strict-Transport-Security", "Expires", "Nel", "Report-To",
}

// compareFields returns the fields of the first answer that again lacks or changes: those that
// clients use, and others.
func compareFields(first, again http.Header) (lost, other []string) {
	for _, name := range sortedNames(first) {
		if slices.Equal(first[name], again[name]) {
			continue
		}
		switch {
		case slices.Contains(clientFields, name):
			lost = append(lost, name)
		case !slices.Contains(answerFields, name) && !strings.Contains(strings.ToLower(name), "ratelimit") && !marksReplay(name):
			other = append(other, name)
		}
	}
	return lost, other
}

// marksReplay reports whether a field of this name may mark a replayed answer.
func marksReplay(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "replay") || strings.Contains(name, "idempoten") || strings.HasPrefix(name, "x-cache")
}

var replayMarker = &Check{
	ID: "replay-marker", Title: "a replayed answer says so", Severity: Minor, Requests: 2,
	Sends: []string{"One request.", "The same request again."},
	Why:   "Someone who looks for a fault, or a client that counts its orders, has to tell a new answer from a replayed one.",
	Fix:   "Set Idempotency-Replayed: true, or Stripe's Idempotent-Replayed, on replayed answers.",
	run: func(ctx context.Context, s *session) finding {
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		again := s.sendAndShow(ctx, "the same request again", op)
		if !again.isSuccess() {
			return notedFinding("a duplicate is answered %s, so nothing is replayed", &again)
		}
		for _, name := range sortedNames(again.header) {
			if marksReplay(name) && !slices.Equal(first.header[name], again.header[name]) {
				return passedFinding("a replayed answer carries %s: %s", name, strings.Join(again.header[name], ", "))
			}
		}
		return notedFinding("nothing marks a replayed answer")
	},
}

var inProgress = &Check{
	ID: "in-progress", Title: "a duplicate of a running request waits or gets Retry-After", Severity: Minor, Requests: 12 + maxFinalRequests,
	Sends: []string{"Twelve requests with one key in the same moment."},
	Why:   "A client that gets 409 without a time retries at once, again and again.",
	Wrong: []string{"A duplicate is answered with 500 or above while the first request runs."},
	Fix:   "Answer 409 with Retry-After, or let the duplicate wait for the first answer.",
	run: func(ctx context.Context, s *session) finding {
		op := s.newOperation()
		replies := s.sendAtOnce(ctx, slices.Repeat([]operation{op}, 12))
		last := s.awaitFinalAfter(ctx, "the request again, after twelve at once", op, replies...)
		waiting, timed := 0, 0
		for i := range replies {
			r := &replies[i]
			switch {
			case r.isFailure() && r.status != http.StatusServiceUnavailable:
				s.showExchange("one of twelve at once", op, r)
				return brokenFinding(Serious, "one of twelve at once was answered %s", r)
			case r.saysRunning():
				if waiting++; r.header.Get("Retry-After") != "" {
					timed++
				} else if waiting-timed == 1 {
					s.showExchange("one of twelve at once", op, r)
				}
			}
		}
		switch {
		case waiting == 0 && last.isSuccess():
			return passedFinding("duplicates wait for the first answer, or came after it")
		case waiting == 0:
			return undecidedFinding("", "the last answer was %s", &last)
		case timed < waiting:
			return notedFinding("%d of %d answers that the first request runs have no Retry-After", waiting-timed, waiting)
		}
		return passedFinding("duplicates are refused with a time to retry after while the first runs")
	},
}
