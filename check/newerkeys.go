package check

import "context"

// newer is how many newer keys are used before a key is used again.
const newer = 32

var newerKeys = &Check{
	ID: "newer-keys", Title: "newer keys do not push an answer out", Severity: Critical, Requests: newer + 2,
	Sends: []string{
		"One request.", "Thirty-two requests in the same moment, each with a key of its own.", "The first request again.",
	},
	Why:   "A cache of limited size drops its oldest answers when traffic is high, and that is when clients retry.",
	Wrong: []string{"The duplicate acts."},
	Fix:   "Keep each answer for a time, however many there are. Refuse new keys when the store is full.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first request", op)
		if !first.ok() {
			return unfit(&first)
		}
		ops := make([]operation, newer)
		for i := range ops {
			ops[i] = s.first()
		}
		accepted := 0
		for _, r := range s.atOnce(ctx, ops) {
			if r.ok() {
				accepted++
			}
		}
		if accepted == 0 {
			return undecided("", "no request with a newer key was answered with success")
		}
		effects.since(ctx, 1+int64(accepted))
		effects = s.effects(ctx)
		again := s.send(ctx, "the first request again, after newer keys", op)
		switch {
		case effects.since(ctx, 0) > 0:
			return broken(Critical, "after %d newer keys a duplicate acted", accepted)
		case again.failed():
			return broken(Serious, "after %d newer keys a duplicate is answered %s", accepted, &again)
		case !effects.known() && (!s.distinct || !again.same(&first)) && !again.refused():
			return undecided(needOracle, "after %d newer keys a duplicate was answered %s; whether it acted is not known", accepted, &again)
		case !again.ok():
			return noted("after %d newer keys a duplicate is answered %s", accepted, &again)
		}
		return passed("after %d newer keys a duplicate does not act", accepted)
	},
}
