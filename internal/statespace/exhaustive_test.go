//go:build !race

package statespace_test

import (
	"os"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var (
	refuse    = []storeapi.OnDoubt{storeapi.Refuse}
	reexecute = []storeapi.OnDoubt{storeapi.Reexecute}
	mixed     = []storeapi.OnDoubt{storeapi.Refuse, storeapi.Reexecute}
)

// The bounds of the searches. No search has everything at once, but any two faults occur together
// in one of them. Leases, retentions and time limits are in different orders, since what expires
// first decides what can follow.
var (
	small = []config{
		{name: "two callers that repeat", callers: 2, tries: 2, policies: refuse, lease: 2, retention: 3, window: 1},
		{name: "both policies", callers: 2, tries: 1, policies: mixed, lease: 2, retention: 3, window: 1},
		{name: "an operator and a caller", callers: 1, operators: 1, tries: 1, policies: mixed, lease: 1, retention: 2, window: 1, force: true, fails: true, extends: true, dups: 1},
		{name: "a clock that is set back", callers: 2, tries: 1, policies: refuse, lease: 1, retention: 2, window: 1, backs: 1, back: 3},
		{name: "writes", callers: 2, tries: 1, policies: mixed, lease: 1, retention: 2, window: 1, writes: true},
	}
	medium = []config{
		{name: "three callers", callers: 3, tries: 1, policies: mixed, lease: 1, retention: 2, window: 1},
		{name: "long time limits", callers: 2, tries: 2, policies: mixed, lease: 2, retention: 3, window: 2},
		{name: "an operator and two callers", callers: 2, operators: 1, tries: 1, policies: mixed, lease: 2, retention: 3, window: 1},
		{name: "an operator and all that can end", callers: 2, operators: 1, tries: 1, policies: refuse, lease: 2, retention: 3, window: 1, force: true, fails: true, extends: true},
		{name: "a clock that is set back under both policies", callers: 2, tries: 1, policies: mixed, lease: 2, retention: 3, window: 1, backs: 1, back: 4},
	}
	large = []config{
		{name: "three callers that write", callers: 3, tries: 1, policies: reexecute, lease: 1, retention: 2, window: 1, writes: true},
		{name: "three callers that repeat", callers: 3, tries: 2, policies: refuse, lease: 1, retention: 2, window: 1},
		{name: "three callers that repeat under both policies", callers: 3, tries: 2, policies: mixed, lease: 1, retention: 2, window: 1},
		{name: "three callers that write and extend", callers: 3, tries: 1, policies: mixed, lease: 2, retention: 3, window: 1, writes: true, extends: true},
		{name: "three tries", callers: 2, tries: 3, policies: mixed, lease: 2, retention: 3, window: 1},
		{name: "copies of requests", callers: 2, tries: 2, policies: mixed, lease: 2, retention: 3, window: 1, dups: 2, extends: true},
		{name: "time limits that outlive retention", callers: 2, tries: 2, policies: mixed, lease: 1, retention: 1, window: 3},
		{name: "an operator that repeats", callers: 2, operators: 1, tries: 2, policies: refuse, lease: 2, retention: 3, window: 1},
		{name: "an operator under both policies", callers: 2, operators: 1, tries: 2, operatorTries: 1, policies: mixed, lease: 1, retention: 2, window: 1, force: true},
		{name: "two operators", callers: 2, operators: 2, tries: 1, policies: refuse, lease: 1, retention: 2, window: 1, force: true, fails: true},
		{name: "an operator and three callers", callers: 3, operators: 1, tries: 1, policies: refuse, lease: 1, retention: 2, window: 1},
		{name: "an operator and a clock that is set back", callers: 2, operators: 1, tries: 1, policies: refuse, lease: 2, retention: 3, window: 1, backs: 1, back: 4},
	}
)

// long reports whether RETRYSAFE_MODELS=long asks for all bounds; make verify does. Without it the
// models take seconds.
func long() bool { return os.Getenv("RETRYSAFE_MODELS") == "long" }

// TestExhaustive does not search the small bounds, which TestCodesAreFaithful does. Unless the
// models are long, it searches one of the medium bounds.
func TestExhaustive(t *testing.T) {
	t.Parallel()
	all := medium
	if !long() {
		all = medium[1:2]
	}
	exhaust(t, all)
}

// TestSoakExhaustive has bounds that take minutes; RETRYSAFE_SOAK=long enables it.
func TestSoakExhaustive(t *testing.T) {
	t.Parallel()
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		exhaust(t, large)
	}
}

func exhaust(t *testing.T, all []config) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, began := newSearch(c), time.Now()
			if found := s.run(); found != "" {
				t.Error(found)
			}
			t.Logf("%d states, %d steps deep, up to %d attempts of a record, in %v", len(s.paths), s.depth, s.attempts, time.Since(began).Round(time.Millisecond))
		})
	}
}

// newSearch returns a search of the real rules for all properties, with no limit on states.
func newSearch(c config) *search {
	c.ticks, c.rules, c.check = []int64{1}, &rules{}, everything
	return &search{config: &c, most: 1 << 30}
}
