package check

import (
	"context"
	"net/http"
)

// twins are two keys that a service may take for one.
type twins struct {
	differ string // how they differ: "differ in case only"
	// pair returns new ones. Both are of the form that the twins are about.
	pair func() (first, second string)
}

// toldApart is what was seen of several twins.
type toldApart struct {
	taken   []int // the indexes of those whose keys are two keys
	refused reply // the last refusal of one, if there was one
}

// tellApart sends a request with each key of all, one pair after the other. Keys that the service
// refuses are left out. ok is false if f ends the check: two keys are taken for one, or it cannot
// be seen.
//
// The two are different operations, so that a service with unique numbers takes both. One that
// compares bodies then refuses the second of two that it takes for one; so does one that does not
// take its form, which a third key of that form shows.
func (s *session) tellApart(ctx context.Context, all []twins) (seen toldApart, f finding, ok bool) {
	effects, acted := s.effects(ctx), int64(0)
	for i, t := range all {
		one, other := t.pair()
		first := s.send(ctx, "a request", s.first().keyed(one))
		if !first.ok() { // other checks judge how a key is refused
			seen.refused = first
			continue
		}
		second := s.send(ctx, "another request; the keys of both "+t.differ, s.first().keyed(other))
		switch taken := !second.ok() && (second.status == http.StatusConflict || s.takes(ctx, t)); {
		case taken && second.failed():
			return seen, broken(Serious, "of two keys that %s, the second is answered %s, and a new key of its form is not", t.differ, &second), false
		case taken:
			return seen, broken(Critical, "of two keys that %s, the second is refused with %s, as a duplicate is", t.differ, &second), false
		case !second.ok():
			seen.refused = second
			acted = effects.since(ctx, acted+1)
			continue
		}
		switch n := effects.since(ctx, acted+2); {
		case n < acted+2, !effects.known() && s.distinct && first.same(&second):
			return seen, broken(Critical, "two keys that %s are taken for one", t.differ), false
		case !effects.known() && !s.distinct:
			return seen, undecided(needOracle, "the answers do not show whether both requests acted"), false
		default:
			acted = n
		}
		seen.taken = append(seen.taken, i)
	}
	return seen, finding{}, true
}

// takes reports whether the service takes a key like the second of t.
func (s *session) takes(ctx context.Context, t twins) bool {
	_, other := t.pair()
	r := s.send(ctx, "another key of the form of the second", s.first().keyed(other))
	return r.ok()
}
