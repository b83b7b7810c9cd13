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

// TestEachPanics: a panic does not end the process from an unguarded goroutine, and the other calls
// are made.
func TestEachPanics(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 7} {
		called := make([]bool, n)
		crash := func() (crash any) {
			defer func() { crash = recover() }()
			parallel.Each(n, 3, func(i int) {
				called[i] = true
				if i == 0 {
					panic("f is broken")
				}
			})
			return nil
		}()
		assert.Equal(t, crash, any("f is broken"), "what the caller recovers, of %d", n)
		for i := range called {
			assert.True(t, called[i], "f was called with %d", i)
		}
	}
}
