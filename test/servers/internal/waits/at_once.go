package waits

import (
	"sync"
	"sync/atomic"
)

// AtOnce returns how many of n concurrent callers pass.
func AtOnce(n int, take func() error) int {
	var passed atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if take() == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	return int(passed.Load())
}
