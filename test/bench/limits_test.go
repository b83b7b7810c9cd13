package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestLimitsAllocations: the cost of a call under limits. If its caller can cancel it, the charge
// runs in a separate goroutine.
func TestLimitsAllocations(t *testing.T) {
	end, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, tt := range []struct {
		name          string
		ctx           context.Context
		first, replay float64
	}{
		{"a context without an end", context.Background(), 17, 7},
		{"a context with an end", end, 20, 7},
	} {
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{
			Codec: retrysafe.Raw, Sweep: -1, Secret: []byte("a secret of tests"),
			Policy: retrysafe.Policy{Retention: time.Hour, Limits: retrysafe.Limits{Live: 1 << 30}},
		})
		t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
		all, i := makeKeys(1001), 0
		call := func(k retrysafe.Key) {
			if _, err := retrysafe.Do(tt.ctx, e, k, answerWork); err != nil {
				t.Fatal(err)
			}
		}
		if got := testing.AllocsPerRun(1000, func() { call(all[i]); i++ }); got > tt.first {
			t.Errorf("first run, %s: %v allocations, at most %v", tt.name, got, tt.first)
		}
		if got := testing.AllocsPerRun(1000, func() { call(all[0]) }); got > tt.replay {
			t.Errorf("replay, %s: %v allocations, at most %v", tt.name, got, tt.replay)
		}
	}
}
