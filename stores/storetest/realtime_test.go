package storetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

var claimsClause = storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Batcher: true}

// fast uses a shorter unit than the default: nothing here is slower than memory.
var fast = storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Batcher: true, Unit: 20 * time.Millisecond}

// TestRealTime runs the suite for a store without a settable clock.
func TestRealTime(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Backend { return storetest.Backend{Store: packed.New(time.Now)} }, fast)
}

// TestRealTimeExact does the same in simulated time, which passes only in waits. So no result
// depends on a slow machine.
func TestRealTimeExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := func(func(func())) storetest.Backend { return storetest.Backend{Store: packed.New(time.Now)} }
		for clause, failures := range storetest.Check(t.Context(), open, claimsClause) {
			for _, text := range failures {
				t.Errorf("%s: %s", clause, text)
			}
		}
	})
}
