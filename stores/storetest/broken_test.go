package storetest_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/broken"
)

// TestBrokenStores shows that the suite can fail: each broken store fails its clause, and no other
// clause fails without a reason.
func TestBrokenStores(t *testing.T) {
	t.Parallel()
	caught := map[string]int{}
	for _, b := range broken.All() {
		caught[b.Clause]++
		t.Run(b.Clause+" "+b.Name, func(t *testing.T) {
			t.Parallel()
			var failures map[string][]string
			// The clock is the bubble's: a call hangs if nothing can go on, however slow the
			// machine.
			synctest.Test(t, func(t *testing.T) { failures = storetest.Check(t.Context(), b.Open, b.Features) })
			if len(failures[b.Clause]) == 0 {
				t.Errorf("%s passes, want it to fail", b.Clause)
			}
			got := slices.DeleteFunc(slices.Sorted(maps.Keys(failures)), func(id string) bool { return slices.Contains(b.Maybe, id) })
			want := append([]string{b.Clause}, b.Also...)
			slices.Sort(want)
			if slices.Equal(got, want) {
				return
			}
			t.Errorf("got failures of %q, want those of %q", got, want)
			for id, texts := range failures {
				if !slices.Contains(want, id) {
					t.Errorf("%s: %s", id, texts[0])
				}
			}
		})
	}
	for _, id := range storetest.Clauses() {
		if caught[id] == 0 {
			t.Errorf("no broken store is there for %s", id)
		}
	}
}

// TestControl runs the store that the broken ones are derived from, without any mistake.
func TestControl(t *testing.T) {
	t.Parallel()
	for name, single := range map[string]bool{"many writers": false, "one writer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			control := broken.Control(single)
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				t.Helper()
				return control.Open(t.Cleanup)
			}, control.Features)
		})
	}
}
