package check

import "context"

// newer is how many newer keys are used before a key is used again.
const newerCount = 32

var newerKeys = &Check{
	ID: "newer-keys", Title: "newer keys do not push an answer out", Severity: Critical, Requests: newerCount + 2,
	Sends: []string{
		"One request.", "Thirty-two requests in the same moment, each with a key of its own.", "The first request again.",
	},
	Why:   "A cache of limited size drops its oldest answers when traffic is high, and that is when clients retry.",
	Wrong: []string{"The duplicate acts."},
	Fix:   "Keep each answer for a time, however many there are. Refuse new keys when the store is full.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		ops := make([]operation, newerCount)
		for i := range ops {
			ops[i] = s.newOperation()
		}
		accepted := 0
		for _, r := range s.sendAtOnce(ctx, ops) {
			if r.isSuccess() {
				accepted++
			}
		}
		if accepted == 0 {
			return undecidedFinding("", "no request with a newer key was answered with success")
		}
		effects.awaitCount(ctx, 1+int64(accepted))
		effects = s.newEffectCounter(ctx)
		again := s.sendAndShow(ctx, "the first request again, after newer keys", op)
		switch {
		case effects.awaitCount(ctx, 0) > 0:
			return brokenFinding(Critical, "after %d newer keys a duplicate acted", accepted)
		case again.isFailure():
			return brokenFinding(Serious, "after %d newer keys a duplicate is answered %s", accepted, &again)
		case !effects.isCounting() && (!s.distinct || !again.equals(&first)) && !again.isRefusal():
			return undecidedFinding(needOracle, "after %d newer keys a duplicate was answered %s; whether it acted is not known", accepted, &again)
		case !again.isSuccess():
			return notedFinding("after %d newer keys a duplicate is answered %s", accepted, &again)
		}
		return passedFinding("after %d newer keys a duplicate does not act", accepted)
	},
}
