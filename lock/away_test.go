package lock_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
)

// TestServerAway: while the server is unreachable, the waiters of one name fail soon and not one
// after the other, and callers that do not wait get the error of the server.
func TestServerAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		f.setFaults(func(f *faults) { f.lost, f.unlock = func() error { return errCut }, func() error { return errCut } })
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := a.Lock(t.Context(), "stock")
				assert.ErrorIs(t, err, errCut, "a caller that waits")
			})
		}
		all.Go(func() {
			for range 20 {
				_, err := a.TryLock(t.Context(), "stock")
				assert.True(t, err != nil && (errors.Is(err, errCut) || time.Since(began) == 0), "a caller that does not wait: %v", err)
				time.Sleep(20 * time.Millisecond)
			}
		})
		all.Wait()
		assert.True(t, time.Since(began) < 5*time.Second, "it took %v", time.Since(began))
		f.setFaults(func(f *faults) { f.lost, f.unlock = nil, nil })
		// The locks whose answers were lost are released by now, or their leases have ended.
		time.Sleep(time.Minute)
		got, err := a.TryLock(t.Context(), "stock")
		assert.NoError(t, err, "when the server is back")
		assert.NoError(t, got.Release(t.Context()), "release")
		_, err = a.TryLock(t.Context(), "stock", lock.WithLease(time.Second))
		assert.NoError(t, err, "again")
	})
}
