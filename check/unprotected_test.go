package check_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check"
)

type counter struct{ n *atomic.Int64 }

func (c counter) Count(context.Context) (int64, error) { return c.n.Load(), nil }
func (c counter) String() string                       { return "counter" }

// TestUnprotected examines a handler that knows nothing of keys.
func TestUnprotected(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":"pay_%d"}`, n.Add(1))
	}))
	defer server.Close()
	report, err := check.Examine(t.Context(), check.Target{
		Request:  check.Request{URL: server.URL + "/payments", Body: []byte(`{"amount":500,"to":"x"}`)},
		Oracle:   counter{&n},
		Contract: "stripe",
	}, &check.Options{Patience: time.Minute, Rate: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]check.Verdict{
		"sequential-duplicate": check.Broken, "concurrent-duplicates": check.Broken, "new-key": check.Passed,
		"other-body": check.Broken, "other-body-while-running": check.Broken, "json-order": check.Broken,
		"other-route": check.Undecided, "other-caller": check.Undecided, "no-credentials": check.Undecided,
		"hang-up": check.Broken, "half-body": check.Broken, "after-client-error": check.Undecided,
		"after-too-many": check.Undecided, "after-server-error": check.Undecided, "missing-key": check.Noted,
		"empty-key": check.Noted, "quoted-key": check.Noted, "doubled-key": check.Broken, "long-key": check.Passed,
		"cut-key": check.Passed, "key-case": check.Passed, "alike-keys": check.Passed,
		"fidelity": check.Broken, "replay-marker": check.Noted, "in-progress": check.Passed, "contract": check.Broken,
		"newer-keys": check.Broken, "expiry": check.Undecided, "restart-after": check.Undecided, "restart-during": check.Undecided,
	}
	for _, r := range report.Results {
		if r.Verdict != want[r.ID] {
			t.Errorf("%s: %s (%s), want %s", r.ID, r.Verdict, r.Summary, want[r.ID])
		}
	}
	if len(report.Results) != len(want) || len(check.Checks()) != len(want) {
		t.Errorf("%d results of %d checks, want %d", len(report.Results), len(check.Checks()), len(want))
	}
}
