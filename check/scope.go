package check

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

var otherRoute = &Check{
	ID: "other-route", Title: "a key belongs to one operation", Severity: Critical, Requests: 3,
	Sends: []string{"A request of another operation with a key of its own.", "One request.", "A request of the other operation with the key of that request."},
	Why:   "A client makes one key per order, and uses it for the payment and for the e-mail.",
	Wrong: []string{"The other operation gets the first answer and does not act."},
	Fix:   "Make the operation, the method and the route, a part of what is looked up; or refuse with 422.",
	run: func(ctx context.Context, s *session) finding {
		if s.target.OtherRoute == nil {
			return undecidedFinding("Give a request of another operation: --other-route.", "only one operation is known")
		}
		effects := s.newEffectCounter(ctx)
		route := fillPlaceholders(*s.target.OtherRoute)
		control := s.sendUnshown(ctx, s.operationOf(route))
		counted := effects.awaitCount(ctx, 1)
		if !control.isSuccess() {
			return undecidedFinding("Give a request of another operation that succeeds: --other-route.", "the request of the other operation was answered %s", &control)
		}
		effects = s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		second := s.sendAndShow(ctx, "another operation with the same key", op.withChange(func(r *Request) { *r = fillPlaceholders(*s.target.OtherRoute) }))
		switch {
		case second.isFailure():
			return brokenFinding(Serious, "another operation with the same key was answered %s", &second)
		case second.isRefusal():
			return notedFinding("another operation with the same key is refused with %s: clients need a key for each operation", &second)
		case !second.isSuccess():
			return undecidedFinding("", "another operation with the same key got %s", &second)
		case second.equals(&first) && !control.equals(&first):
			return brokenFinding(Critical, "another operation with the same key got the answer of the first")
		case effects.isCounting() && counted == 1 && effects.awaitCount(ctx, 2) < 2:
			return brokenFinding(Critical, "another operation with the same key was answered with success and did not act")
		case !effects.isCounting() && !s.distinct:
			return undecidedFinding(needOracle, "the answers do not show whether the other operation acted")
		}
		return passedFinding("another operation with the same key acts by itself")
	},
}

var otherCaller = &Check{
	ID: "other-caller", Title: "a key belongs to its caller", Severity: Critical, Requests: 3,
	Sends: []string{"A request of a second caller with a key of its own.", "One request of the first caller.", "The same request and key from the second caller."},
	Why:   "Keys are guessed, logged and copied. A stranger's key must not open an answer.",
	Wrong: []string{
		"The second caller gets the first caller's answer, or parts of it in a refusal.",
		"The second caller is answered with success, and nothing was done for it.",
	},
	Fix: "Make the caller, as authenticated, a part of what is looked up.",
	run: func(ctx context.Context, s *session) finding {
		if len(s.target.OtherCaller) == 0 {
			return undecidedFinding("Give the credentials of a second caller: --other-caller 'Authorization: Bearer …'.", "only one caller is known")
		}
		as := func(op operation) operation {
			return op.asCaller("OTHER_", sortedNames(s.target.OtherCaller), s.setOtherCredentials)
		}
		control := s.sendUnshown(ctx, as(s.newOperation()))
		if !control.isSuccess() {
			return undecidedFinding("Give credentials that are accepted: --other-caller.", "the second caller's request, with a key of its own, was answered %s", &control)
		}
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first caller's request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		second := s.sendAndShow(ctx, "the same request and key from another caller", as(op))
		switch leaked := findLeaks(&first, &second, &control, op); {
		case second.isSuccess() && second.equals(&first) && s.distinct:
			return brokenFinding(Critical, "another caller with the same key got the first caller's answer")
		case second.isSuccess() && effects.awaitCount(ctx, 2) < 2:
			return brokenFinding(Critical, "another caller with the same key was answered %s, and nothing was done for it", &second)
		case !second.isSuccess() && len(leaked) > 0:
			return brokenFinding(Critical, "the refusal of another caller (%s) has parts of the first caller's answer: %s", &second, strings.Join(leaked, ", "))
		case second.isFailure():
			return brokenFinding(Serious, "another caller with the same key was answered %s", &second)
		case second.isSuccess() && !effects.isCounting() && !s.distinct:
			return undecidedFinding(needOracle, "the answers do not show for whom the second request acted")
		case second.isSuccess():
			return passedFinding("another caller with the same key acts by itself")
		}
		return notedFinding("another caller with the same key is answered %s: callers can block each other's keys", &second)
	},
}

// setOtherCredentials makes r a request of the second caller.
func (s *session) setOtherCredentials(r *Request) {
	for name, values := range s.target.OtherCaller {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
}

var noCredentials = &Check{
	ID: "no-credentials", Title: "a stored answer needs credentials", Severity: Critical, Requests: 5,
	Sends: []string{
		"A request without credentials, and one with wrong ones, each with a key of its own.", "One request.",
		"The same request and key without credentials, and with wrong ones.",
	},
	Why:   "Where stored answers are looked up before the caller is authenticated, everybody who learns a key reads its answer.",
	Wrong: []string{"A caller without credentials, or with wrong ones, gets the answer or parts of it."},
	Fix:   "Authenticate first, then look the key up.",
	run: func(ctx context.Context, s *session) finding {
		names := s.credentialFields()
		if len(names) == 0 {
			return undecidedFinding("Give the request with credentials (-H 'Authorization: …'), and name their fields by --credential where they have another name.", "the request carries no credentials")
		}
		strangers := []stranger{
			{step: "the same request and key without credentials", change: func(r *Request) { deleteAll(r.Header, names) }},
			{step: "the same request and key with wrong credentials", change: func(r *Request) { spoilCredentials(r.Header, names) }},
		}
		for i := range strangers {
			strangers[i].names = names
			strangers[i].control = s.sendUnshown(ctx, strangers[i].operationFor(s.newOperation()))
		}
		if strangers[0].control.isSuccess() {
			return undecidedFinding("", "the API accepts the request without credentials")
		}
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		return s.judgeStrangers(ctx, op, &first, strangers)
	},
}

// stranger is a caller that does not have the credentials of the first.
type stranger struct {
	step    string
	change  func(*Request)
	names   []string // the fields of credentials
	control reply    // the answer to its request with a key of its own
}

// operationFor returns op as the stranger sends it.
func (q *stranger) operationFor(op operation) operation {
	return op.asCaller("WRONG_", q.names, q.change)
}

// judgeStrangers sends op, which was answered by first, as each stranger.
func (s *session) judgeStrangers(ctx context.Context, op operation, first *reply, strangers []stranger) finding {
	var last reply
	told := "" // what a stranger learns
	for _, q := range strangers {
		if q.control.isSuccess() {
			return notedFinding("the API accepts wrong credentials with a key of their own too, so it was examined without credentials only, which are answered %s", &last)
		}
		last = s.sendAndShow(ctx, q.step, q.operationFor(op))
		if last.isSuccess() {
			return brokenFinding(Critical, "%s was answered %s", q.step, &last)
		}
		if leaked := findLeaks(first, &last, &q.control, op); len(leaked) > 0 {
			return brokenFinding(Critical, "the answer to %s (%s) has parts of the stored answer: %s", q.step, &last, strings.Join(leaked, ", "))
		}
		if last.status != q.control.status && told == "" {
			told = fmt.Sprintf("%s is answered %s where the key was used and %s where it was not: a stranger learns which keys exist", q.step, &last, &q.control)
		}
	}
	if told != "" {
		return notedFinding("%s", told)
	}
	return passedFinding("a caller without credentials, or with wrong ones, is answered %s and learns nothing", &last)
}

// credentialFields returns the names of the fields that carry credentials.
func (s *session) credentialFields() []string {
	names := s.target.Credentials
	if len(names) == 0 {
		names = []string{"Authorization", "Cookie", "X-Api-Key"}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.target.Request.Header.Get(name) == "" })
}

func deleteAll(h http.Header, names []string) {
	for _, name := range names {
		h.Del(name)
	}
}

// spoilCredentials changes each credential, and keeps its scheme. Of cookies it keeps the names.
func spoilCredentials(h http.Header, names []string) {
	for _, name := range names {
		value := h.Get(name)
		if http.CanonicalHeaderKey(name) == "Cookie" {
			h.Set(name, spoilCookies(value))
			continue
		}
		scheme, _, found := strings.Cut(value, " ")
		if !found {
			scheme = ""
		}
		h.Set(name, strings.TrimSpace(scheme+" wrong"+newToken(8)))
	}
}

// spoilCookies changes the value of each cookie: any of them may be the session.
func spoilCookies(line string) string {
	cookies := strings.Split(line, ";")
	for i, cookie := range cookies {
		name, _, _ := strings.Cut(strings.TrimSpace(cookie), "=")
		cookies[i] = name + "=wrong" + newToken(8)
	}
	return strings.Join(cookies, "; ")
}
