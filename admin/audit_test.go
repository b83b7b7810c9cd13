package admin_test

import (
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestAuditOfSeveralProcesses writes from four logs on one store at once: each entry is kept, under
// a number of its own, and none is missing in between.
func TestAuditOfSeveralProcesses(t *testing.T) {
	store := memstore.New(nil)
	const processes, each = 4, 25
	var all sync.WaitGroup
	for range processes {
		audit := admin.NewAudit(store, "shop", 0)
		all.Go(func() {
			for range each {
				if _, err := audit.Write(t.Context(), admin.Entry{Who: "x", Action: "resolve"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	audit := admin.NewAudit(store, "shop", 0)
	seen, want := 0, processes*each
	for _, day := range lastDays() {
		before, left := 0, -1 // each day counts from 1
		for {
			entries, next, err := audit.Read(t.Context(), day, before, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if left >= 0 && e.Number != left {
					t.Fatalf("entry %d, want %d", e.Number, left)
				}
				left = e.Number - 1
				seen++
			}
			if before = next; next == 0 {
				break
			}
		}
		if left > 0 {
			t.Errorf("the first %d entries of the day are missing", left)
		}
	}
	if seen != want {
		t.Errorf("%d entries, want %d", seen, want)
	}
}
