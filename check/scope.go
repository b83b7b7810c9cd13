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
			return undecided("Give a request of another operation: --other-route.", "only one operation is known")
		}
		effects := s.effects(ctx)
		route := unique(*s.target.OtherRoute)
		control := s.quiet(ctx, s.operation(route))
		counted := effects.since(ctx, 1)
		if !control.ok() {
			return undecided("Give a request of another operation that succeeds: --other-route.", "the request of the other operation was answered %s", &control)
		}
		effects = s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first request", op)
		if !first.ok() {
			return unfit(&first)
		}
		second := s.send(ctx, "another operation with the same key", op.with(func(r *Request) { *r = unique(*s.target.OtherRoute) }))
		switch {
		case second.failed():
			return broken(Serious, "another operation with the same key was answered %s", &second)
		case second.refused():
			return noted("another operation with the same key is refused with %s: clients need a key for each operation", &second)
		case !second.ok():
			return undecided("", "another operation with the same key got %s", &second)
		case second.same(&first) && !control.same(&first):
			return broken(Critical, "another operation with the same key got the answer of the first")
		case effects.known() && counted == 1 && effects.since(ctx, 2) < 2:
			return broken(Critical, "another operation with the same key was answered with success and did not act")
		case !effects.known() && !s.distinct:
			return undecided(needOracle, "the answers do not show whether the other operation acted")
		}
		return passed("another operation with the same key acts by itself")
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
			return undecided("Give the credentials of a second caller: --other-caller 'Authorization: Bearer …'.", "only one caller is known")
		}
		as := func(op operation) operation {
			return op.as("OTHER_", sortedNames(s.target.OtherCaller), s.otherCredentials)
		}
		control := s.quiet(ctx, as(s.first()))
		if !control.ok() {
			return undecided("Give credentials that are accepted: --other-caller.", "the second caller's request, with a key of its own, was answered %s", &control)
		}
		effects := s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first caller's request", op)
		if !first.ok() {
			return unfit(&first)
		}
		second := s.send(ctx, "the same request and key from another caller", as(op))
		switch leaked := leaks(&first, &second, &control, op); {
		case second.ok() && second.same(&first) && s.distinct:
			return broken(Critical, "another caller with the same key got the first caller's answer")
		case second.ok() && effects.since(ctx, 2) < 2:
			return broken(Critical, "another caller with the same key was answered %s, and nothing was done for it", &second)
		case !second.ok() && len(leaked) > 0:
			return broken(Critical, "the refusal of another caller (%s) has parts of the first caller's answer: %s", &second, strings.Join(leaked, ", "))
		case second.failed():
			return broken(Serious, "another caller with the same key was answered %s", &second)
		case second.ok() && !effects.known() && !s.distinct:
			return undecided(needOracle, "the answers do not show for whom the second request acted")
		case second.ok():
			return passed("another caller with the same key acts by itself")
		}
		return noted("another caller with the same key is answered %s: callers can block each other's keys", &second)
	},
}

// otherCredentials makes r a request of the second caller.
func (s *session) otherCredentials(r *Request) {
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
		names := s.credentials()
		if len(names) == 0 {
			return undecided("Give the request with credentials (-H 'Authorization: …'), and name their fields by --credential where they have another name.", "the request carries no credentials")
		}
		strangers := []stranger{
			{step: "the same request and key without credentials", change: func(r *Request) { deleteAll(r.Header, names) }},
			{step: "the same request and key with wrong credentials", change: func(r *Request) { spoil(r.Header, names) }},
		}
		for i := range strangers {
			strangers[i].names = names
			strangers[i].control = s.quiet(ctx, strangers[i].sends(s.first()))
		}
		if strangers[0].control.ok() {
			return undecided("", "the API accepts the request without credentials")
		}
		op := s.first()
		first := s.send(ctx, "the first request", op)
		if !first.ok() {
			return unfit(&first)
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

// sends returns op as the stranger sends it.
func (q *stranger) sends(op operation) operation { return op.as("WRONG_", q.names, q.change) }

// judgeStrangers sends op, which was answered by first, as each stranger.
func (s *session) judgeStrangers(ctx context.Context, op operation, first *reply, strangers []stranger) finding {
	var last reply
	told := "" // what a stranger learns
	for _, q := range strangers {
		if q.control.ok() {
			return noted("the API accepts wrong credentials with a key of their own too, so it was examined without credentials only, which are answered %s", &last)
		}
		last = s.send(ctx, q.step, q.sends(op))
		if last.ok() {
			return broken(Critical, "%s was answered %s", q.step, &last)
		}
		if leaked := leaks(first, &last, &q.control, op); len(leaked) > 0 {
			return broken(Critical, "the answer to %s (%s) has parts of the stored answer: %s", q.step, &last, strings.Join(leaked, ", "))
		}
		if last.status != q.control.status && told == "" {
			told = fmt.Sprintf("%s is answered %s where the key was used and %s where it was not: a stranger learns which keys exist", q.step, &last, &q.control)
		}
	}
	if told != "" {
		return noted("%s", told)
	}
	return passed("a caller without credentials, or with wrong ones, is answered %s and learns nothing", &last)
}

// credentials returns the names of the fields that carry credentials.
func (s *session) credentials() []string {
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

// spoil changes each credential, and keeps its scheme. Of cookies it keeps the names.
func spoil(h http.Header, names []string) {
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
