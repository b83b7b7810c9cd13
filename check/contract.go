package check

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// profile is what a contract says about the answers of an API. docs/outcomes.md has the sources.
type profile struct {
	// missing, mismatch and inFlight are the refusals: of a request without a key, of another body,
	// and of a duplicate while the first runs.
	missing, mismatch, inFlight refusal
	// required says that a request without a key is always refused.
	required bool
	// media is the media type of refusals; empty: any.
	media string
	// marker is the field that replayed answers carry with the value true; empty: none is named.
	marker string
	// echo says that answers carry the key.
	echo bool
	// quoted says that a key in double quotes is accepted.
	quoted bool
	// meaning says that the same JSON in another order is a duplicate.
	meaning bool
	// retryAfter says that a refusal while the first runs has Retry-After.
	retryAfter bool
}

// refusal is a status, and the member of the document that names the reason.
type refusal struct {
	status       int
	member, code string
}

var profiles = map[string]*profile{
	"ietf": {
		missing: refusal{status: 400}, mismatch: refusal{status: 422}, inFlight: refusal{status: 409},
		media: "application/problem+json", quoted: true,
	},
	"stripe": {
		mismatch: refusal{400, "error.type", "idempotency_error"},
		inFlight: refusal{409, "error.code", "idempotency_key_in_use"},
		missing:  refusal{status: 400}, media: "application/json", marker: "Idempotent-Replayed", echo: true,
	},
	"acp": {
		missing:  refusal{400, "code", "idempotency_key_required"},
		mismatch: refusal{422, "code", "idempotency_conflict"},
		inFlight: refusal{409, "code", "idempotency_in_flight"},
		required: true, media: "application/json", marker: "Idempotent-Replayed", echo: true, meaning: true, retryAfter: true,
	},
}

var contract = &Check{
	ID: "contract", Title: "the API keeps its contract to the letter", Severity: Serious, Requests: 20 + maxFinalRequests,
	Sends: []string{
		"One request and a duplicate.", "The same key with another body, in another order, and in quotes.",
		"A request without a key.", "Twelve requests with one key in the same moment.",
	},
	Why:   "Clients that were written for a contract look at statuses, fields and codes.",
	Wrong: []string{"A status, a field, a media type or a code is not the one of the contract."},
	Fix:   "Set contract: ietf, stripe or acp in retrysafe, or see docs/outcomes.md for each row and its source.",
	run: func(ctx context.Context, s *session) finding {
		p := profiles[s.target.Contract]
		if p == nil {
			return undecidedFinding("Name a contract: --contract ietf, stripe or acp.", "no contract is named")
		}
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		var rows contractResult
		again := s.sendAndShow(ctx, "a duplicate", op)
		rows.judgeReplay(p, &first, &again, s.target.KeyHeader)
		s.checkVariants(ctx, p, op, &first, &rows)
		missing := s.sendAndShow(ctx, "a request without a key", op.withKeys())
		if p.required || !missing.isSuccess() {
			rows.judgeRefusal("a request without a key", &missing, p.missing, p)
		}
		s.checkInFlight(ctx, p, &rows)
		if len(rows.wrong) > 0 {
			return brokenFinding(Serious, "the contract %s is not kept: %s", s.target.Contract, strings.Join(rows.wrong, "; "))
		}
		if len(rows.unseen) > 0 {
			return notedFinding("the contract %s is kept, as far as it could be seen; not seen: %s", s.target.Contract, strings.Join(rows.unseen, "; "))
		}
		return passedFinding("the contract %s is kept", s.target.Contract)
	},
}

// contractResult collects what of a contract is not kept, and what could not be seen.
type contractResult struct{ wrong, unseen []string }

func (r *contractResult) addWrongf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// checkVariants sends the key of op with bodies and in a form that a contract speaks of.
func (s *session) checkVariants(ctx context.Context, p *profile, op operation, first *reply, rows *contractResult) {
	if other, _, ok := s.findOtherBody(ctx); ok {
		r := s.sendAndShow(ctx, "another body with the same key", op.withChange(other))
		rows.judgeRefusal("another body", &r, p.mismatch, p)
	} else {
		rows.unseen = append(rows.unseen, "another body")
	}
	if shuffled, ok := reverseMembers(op.request.Body); ok && p.meaning {
		r := s.sendAndShow(ctx, "the same JSON in another order", op.withChange(func(q *Request) { q.Body = shuffled }))
		if !r.equals(first) {
			rows.addWrongf("the same JSON in another order is answered %s", &r)
		}
	}
	if p.quoted {
		r := s.sendAndShow(ctx, "a request with a key in quotes", s.newOperation().withKeys(`"`+newUUID()+`"`))
		if !r.isSuccess() {
			rows.addWrongf("a key in quotes is answered %s", &r)
		}
	}
}

// checkInFlight sends duplicates at once, to see the refusal of those that come while the first
// runs.
func (s *session) checkInFlight(ctx context.Context, p *profile, rows *contractResult) {
	op := s.newOperation()
	seen := false
	replies := s.sendAtOnce(ctx, slices.Repeat([]operation{op}, 12))
	for _, r := range replies {
		if r.isSuccess() || r.err != nil || r.status == http.StatusTooManyRequests || seen {
			continue
		}
		seen = true
		s.showExchange("one of twelve at once", op, &r)
		rows.judgeRefusal("a duplicate while the first runs", &r, p.inFlight, p)
		if p.retryAfter && r.header.Get("Retry-After") == "" {
			rows.addWrongf("a duplicate while the first runs gets no Retry-After")
		}
	}
	if !seen {
		rows.unseen = append(rows.unseen, "a duplicate while the first runs")
	}
	s.awaitFinalAfter(ctx, "the request again, after twelve at once", op, replies...)
}

// judgeReplay judges the answer to a duplicate of a finished request.
func (r *contractResult) judgeReplay(p *profile, first, again *reply, keyHeader string) {
	if !again.equals(first) {
		r.addWrongf("a duplicate is answered %s with other bytes, or another status", again)
	}
	if p.marker != "" && again.header.Get(p.marker) != "true" {
		r.addWrongf("a replayed answer has no %s: true", p.marker)
	}
	if p.marker != "" && first.header.Get(p.marker) == "true" {
		r.addWrongf("the first answer has %s: true", p.marker)
	}
	if p.echo && (first.header.Get(keyHeader) == "" || again.header.Get(keyHeader) == "") {
		r.addWrongf("an answer lacks the key in %s", keyHeader)
	}
}

// judgeRefusal judges a refusal.
func (r *contractResult) judgeRefusal(what string, answer *reply, want refusal, p *profile) {
	if answer.status != want.status {
		r.addWrongf("%s is answered %s and not %d", what, answer, want.status)
		return
	}
	media, _, _ := mime.ParseMediaType(answer.header.Get("Content-Type"))
	if p.media != "" && media != p.media {
		r.addWrongf("the document for %s is %q and not %s", what, media, p.media)
		return
	}
	if want.member == "" {
		return
	}
	if got := memberText(answer.body, want.member); got != want.code {
		r.addWrongf("in the document for %s, %s is %q and not %q", what, want.member, got, want.code)
	}
}

// memberText returns the text at a path of names with dots, or nothing.
func memberText(body []byte, path string) string {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return ""
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	text, _ := value.(string)
	return text
}
