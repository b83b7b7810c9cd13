//go:build !race

package statespace_test

import (
	"testing"
)

// TestBrokenRules shows that the searches can fail: each variant breaks one rule of the store or of
// its callers. Each search, checking one property alone, finds steps that violate it.
func TestBrokenRules(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range v.breaks {
				searchVariant(t, &v, p)
				randomVariant(t, &v, p)
			}
		})
	}
}

func searchVariant(t *testing.T, v *variant, p property) {
	t.Helper()
	c := config{
		callers: 2, tries: 1, policies: refuse, lease: 2, retention: 3, window: 1, ticks: []int64{1}, rules: &v.rules, check: only(p),
	}
	for _, adjust := range v.needs {
		adjust(&c)
	}
	s := search{config: &c, most: 500_000}
	found := s.run()
	if found == "" {
		t.Errorf("%d states, and nothing breaks this: %s", len(s.paths), propertyText[p])
		return
	}
	t.Logf("%d states: %s", len(s.paths), found)
}

func randomVariant(t *testing.T, v *variant, p property) {
	t.Helper()
	for seed := range uint64(20_000) {
		s := &schedule{seed: seed, rules: &v.rules, check: only(p)}
		if s.run(&rows{time: beginning, rules: s.rules}); s.found() != "" {
			t.Logf("%d schedules: %s", seed+1, s.found())
			return
		}
	}
	t.Errorf("no schedule breaks this: %s", propertyText[p])
}

// TestEachPropertyCanFail: a property that no variant violates may not be checked at all.
func TestEachPropertyCanFail(t *testing.T) {
	t.Parallel()
	broken := properties(0)
	for _, v := range variants {
		for _, p := range v.breaks {
			broken |= only(p)
		}
	}
	for p := oneStart; p < answers; p++ {
		if broken&only(p) == 0 {
			t.Errorf("no variant breaks this: %s", propertyText[p])
		}
	}
}
