package check

import (
	"context"
	"net/http"
)

// keyPair is two keys that a service may take for one.
type keyPair struct {
	difference string // how they differ: "differ in case only"
	// newKeys returns new ones. Both are of the form that the pair is about.
	newKeys func() (first, second string)
}

// pairResults is what was seen of several pairs.
type pairResults struct {
	accepted []int // the indexes of those whose keys are two keys
	refusal  reply // the last refusal of one, if there was one
}

// checkKeyPairs sends a request with each key of all, one pair after the other. Keys that the
// service refuses are left out. ok is false if f ends the check: two keys are taken for one, or it
// cannot be seen.
//
// The two are different operations, so that a service with unique numbers takes both. One that
// compares bodies then refuses the second of two that it takes for one; so does one that does not
// take its form, which a third key of that form shows.
func (s *session) checkKeyPairs(ctx context.Context, all []keyPair) (seen pairResults, f finding, ok bool) {
	effects, acted := s.newEffectCounter(ctx), int64(0)
	for i, t := range all {
		one, other := t.newKeys()
		first := s.sendAndShow(ctx, "a request", s.newOperation().withKeys(one))
		if !first.isSuccess() { // other checks judge how a key is refused
			seen.refusal = first
			continue
		}
		second := s.sendAndShow(ctx, "another request; the keys of both "+t.difference, s.newOperation().withKeys(other))
		switch taken := !second.isSuccess() && (second.status == http.StatusConflict || s.acceptsForm(ctx, t)); {
		case taken && second.isFailure():
			return seen, brokenFinding(Serious, "of two keys that %s, the second is answered %s, and a new key of its form is not", t.difference, &second), false
		case taken:
			return seen, brokenFinding(Critical, "of two keys that %s, the second is refused with %s, as a duplicate is", t.difference, &second), false
		case !second.isSuccess():
			seen.refusal = second
			acted = effects.awaitCount(ctx, acted+1)
			continue
		}
		switch n := effects.awaitCount(ctx, acted+2); {
		case n < acted+2, !effects.isCounting() && s.distinct && first.equals(&second):
			return seen, brokenFinding(Critical, "two keys that %s are taken for one", t.difference), false
		case !effects.isCounting() && !s.distinct:
			return seen, undecidedFinding(needOracle, "the answers do not show whether both requests acted"), false
		default:
			acted = n
		}
		seen.accepted = append(seen.accepted, i)
	}
	return seen, finding{}, true
}

// acceptsForm reports whether the service takes a key like the second of t.
func (s *session) acceptsForm(ctx context.Context, t keyPair) bool {
	_, other := t.newKeys()
	r := s.sendAndShow(ctx, "another key of the form of the second", s.newOperation().withKeys(other))
	return r.isSuccess()
}
