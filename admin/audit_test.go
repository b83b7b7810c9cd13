package admin_test

import (
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/memstore"
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
	seen, before := 0, 0
	want := processes * each
	for {
		entries, next, err := audit.Read(t.Context(), time.Now(), before, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Number != want-seen {
				t.Fatalf("entry %d, want %d", e.Number, want-seen)
			}
			seen++
		}
		if before = next; next == 0 {
			break
		}
	}
	if seen != want {
		t.Errorf("%d entries, want %d", seen, want)
	}
}
