package check

import (
	"context"
	"slices"
)

const needOtherBody = "Give another valid body: --other-body."

var otherBody = &Check{
	ID: "other-body", Title: "a key does not fit another body", Severity: Critical, Requests: 4 + 2*maxAltered,
	Sends: []string{
		"The other body with a key of its own, to see that it is valid.",
		"One request.", "A request with the other body and the same key.", "The first request again.",
		"For up to four members: the first request with another value of that member, and the same key.",
		"If one of these is accepted: that body with a key of its own, to see that it is valid.",
	},
	Why: "A bug in a client uses one key for two orders; the second customer must not get the first order as theirs.",
	Wrong: []string{
		"The other body gets the first answer: its order was never placed, and the client believes it was.",
		"The other body acts.",
		"A body that differs in one member alone, such as the currency, gets the first answer or acts.",
		"The first request no longer gets its answer.",
	},
	Fix: "Store a digest of the whole request with the key, and refuse a request with another digest. The IETF draft answers it with 422.",
	run: func(ctx context.Context, s *session) finding {
		other, f, ok := s.findOtherBody(ctx)
		if !ok {
			return f
		}
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		second := s.sendAndShow(ctx, "another body with the same key", op.withChange(other))
		again := s.sendAndShow(ctx, "the first request again", op)
		f = judgeOther(effects.awaitCount(ctx, 1), effects.isCounting(), &first, &second, &again)
		if f.verdict == Passed || f.verdict == Noted {
			if missed, found := s.findMissedMembers(ctx, effects, op); found {
				return missed
			}
		}
		return f
	},
}

// judgeOther judges a request, another body with its key, and the request again, which took effect
// n times in all.
func judgeOther(n int64, known bool, first, second, again *reply) finding {
	switch {
	case n > 1:
		return brokenFinding(Critical, "two bodies under one key took effect %s", timesText(n))
	case n == 0:
		return brokenFinding(Critical, "the answer was a success, and the operation never took effect")
	case second.isSuccess() && second.equals(first):
		return brokenFinding(Serious, "another body with the same key got the first answer, %s", second)
	case second.isSuccess() && known:
		return brokenFinding(Serious, "another body with the same key was answered %s and did not take effect", second)
	case second.isSuccess():
		return undecidedFinding(needOracle, "another body with the same key was answered %s; whether it acted is not known", second)
	case second.isFailure():
		return brokenFinding(Serious, "another body with the same key was answered %s", second)
	case again.isSuccess() || again.status == first.status:
		return passedFinding("another body with the same key is refused with %s, and the first answer is kept", second)
	case again.isRefusal():
		return notedFinding("another body with the same key is refused with %s, and so is a duplicate (%s)", second, again)
	}
	return brokenFinding(Serious, "after another body was refused, the first request is answered %s", again)
}

var otherBodyWhileRunning = &Check{
	ID: "other-body-while-running", Title: "of two bodies at once with one key, one wins", Severity: Critical, Requests: 12 + 2*maxFinalRequests,
	Sends: []string{
		"One request and, in the same moment, five duplicates of it and five requests with another body, all with one key.",
		"Each of the two bodies once more, when all were answered.",
	},
	Why: "Two devices of one user use one key at the same moment.",
	Wrong: []string{
		"Both bodies are answered with success.",
		"More than one took effect, or none.",
	},
	Fix: "Store the digest of the request when the key is claimed, not when the work has ended.",
	run: func(ctx context.Context, s *session) finding {
		other, f, ok := s.findOtherBody(ctx)
		if !ok {
			return f
		}
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		second := op.withChange(other)
		ops := slices.Concat(slices.Repeat([]operation{op}, 6), slices.Repeat([]operation{second}, 5))
		replies := s.sendAtOnce(ctx, ops)
		a, b := s.awaitBothFinal(ctx, op, second, replies[:6], replies[6:])
		winA, winB := a.isSuccess() || anyOK(replies[:6]), b.isSuccess() || anyOK(replies[6:])
		n := effects.awaitCount(ctx, 1)
		switch {
		case n > 1:
			return brokenFinding(Critical, "two bodies under one key at once took effect %s", timesText(n))
		case winA && winB:
			return brokenFinding(Serious, "two bodies under one key at once were both answered with success")
		case !winA && !winB:
			return undecidedFinding("", "neither body was answered with success: %s and %s", &a, &b)
		case n == 0:
			return brokenFinding(Critical, "one body was answered with success, and nothing took effect")
		}
		return passedFinding("of two bodies under one key at once, one acted and the other was refused")
	},
}

// awaitBothFinal returns the last answers to two bodies under one key. When the one that was
// answered with success has settled, what the other is answered is final, even if it is 409.
func (s *session) awaitBothFinal(ctx context.Context, first, second operation, firsts, seconds []reply) (a, b reply) {
	const stepA, stepB = "the first body, after both at once", "the other body, after both at once"
	if anyOK(seconds) && !anyOK(firsts) {
		b = s.awaitFinalAfter(ctx, stepB, second, seconds...)
		return s.sendAndShow(ctx, stepA, first), b
	}
	a = s.awaitFinalAfter(ctx, stepA, first, firsts...)
	if a.isSuccess() || anyOK(firsts) {
		return a, s.sendAndShow(ctx, stepB, second)
	}
	return a, s.awaitFinal(ctx, stepB, second)
}

func anyOK(replies []reply) bool {
	return slices.ContainsFunc(replies, func(r reply) bool { return r.isSuccess() })
}

var jsonOrder = &Check{
	ID: "json-order", Title: "the same JSON in another order does not act", Severity: Critical, Requests: 2,
	Sends: []string{"One request with a JSON body.", "The same JSON with its members in another order and other white space, with the same key."},
	Why:   "A client that was restarted encodes its order again, and its map has another order.",
	Wrong: []string{"The operation took effect twice."},
	Fix:   "Compare JSON by its meaning, or refuse; never act.",
	run: func(ctx context.Context, s *session) finding {
		op := s.newOperation()
		shuffled, ok := reverseMembers(op.request.Body)
		if !ok {
			return undecidedFinding("Give a request whose body is a JSON object with two members or more.", "the body has no order that could be changed")
		}
		effects := s.newEffectCounter(ctx)
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		second := s.sendAndShow(ctx, "the same JSON in another order", op.withChange(func(r *Request) { r.Body = shuffled }))
		if f, ok := judgeOnce(effects.awaitCount(ctx, 1)); !ok {
			return f
		}
		switch {
		case second.isFailure():
			return brokenFinding(Serious, "the same JSON in another order is answered %s", &second)
		case second.isRefusal() && second.status == s.observed.duplicateStatus:
			return notedFinding("the same JSON in another order is refused with %s, as each duplicate is", &second)
		case second.isRefusal():
			return notedFinding("the same JSON in another order is refused with %s: clients have to send the same bytes again", &second)
		case !effects.isCounting() && !second.equals(&first):
			return undecidedFinding(needOracle, "the same JSON in another order is answered %s; whether it acted is not known", &second)
		}
		return passedFinding("the same JSON in another order is a duplicate")
	},
}

// findOtherBody returns what makes another valid body of a request. ok is false if there is none.
func (s *session) findOtherBody(ctx context.Context) (change func(*Request), f finding, ok bool) {
	body, ok := s.otherBodyText()
	if !ok {
		return nil, undecidedFinding(needOtherBody, "another body cannot be made of this one"), false
	}
	token := newToken(8) // an operation of its own, and the same in each of its requests
	change = func(r *Request) { r.Body = replacePlaceholder(body, token) }
	effects := s.newEffectCounter(ctx)
	control := s.sendUnshown(ctx, s.newOperation().withChange(func(r *Request) { r.Body = replacePlaceholder(body, newToken(8)) }))
	if !control.isSuccess() {
		return nil, undecidedFinding(needOtherBody, "the other body, with a key of its own, was answered %s", &control), false
	}
	effects.awaitCount(ctx, 1) // the check itself counts from here
	return change, finding{}, true
}

// otherBodyText returns another valid body, with its placeholders.
func (s *session) otherBodyText() (body []byte, ok bool) {
	if s.target.OtherBody != nil {
		return s.target.OtherBody, true
	}
	return alterBody(s.target.Request.Body, s.target.Request.Header.Get("Content-Type"))
}
