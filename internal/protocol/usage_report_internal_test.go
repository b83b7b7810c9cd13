package protocol

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestReportedRate: a rate is reported as it was configured, though only its distance is kept.
func TestReportedRate(t *testing.T) {
	for _, rate := range []float64{storeapi.MinRate, 0.01, 0.5, 1, 3, 7, 10, 25, 300, 999, 1000, storeapi.MaxRate} {
		req := storeapi.ChargeRequest{Keys: 1, For: time.Hour, Limits: storeapi.Limits{PerSecond: rate, Burst: 5}}
		terms := TermsOf(&req)
		if got := perSecond(terms.Every); got != rate {
			t.Errorf("%v a second is reported as %v", rate, got)
		}
	}
}

// TestUsedIsExact: a new key is refused exactly while Used is the burst or more.
func TestUsedIsExact(t *testing.T) {
	const now Micros = 1e15
	req := storeapi.ChargeRequest{Keys: 1, For: time.Hour, Limits: storeapi.Limits{PerSecond: 3, Burst: 4}}
	var u Usage
	refused := 0
	for at := now; at < now+3e6; at += 100_001 {
		used := int64(0)
		for _, r := range u.Report(at).Rates {
			used = r.Used
		}
		next, got, write := Charge(u, at, &req)
		if got.OK != (used < req.Limits.Burst) {
			t.Errorf("after %d µs: %d used of %d, and a new key is counted: %v", at-now, used, req.Limits.Burst, got.OK)
		}
		if write {
			u = next
		} else {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no key was refused")
	}
}
