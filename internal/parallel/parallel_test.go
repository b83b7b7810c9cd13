package parallel_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/parallel"
)

func TestEach(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			called, now, most := map[int]int{}, 0, 0
			parallel.Each(n, 3, func(i int) {
				mu.Lock()
				called[i]++
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
			})
			assert.Equal(t, len(called), n, "numbers that f was called with")
			assert.Equal(t, most, min(n, 3), "calls at one time")
			for i, times := range called {
				assert.Equal(t, times, 1, "calls with %d", i)
			}
		})
	}
}
