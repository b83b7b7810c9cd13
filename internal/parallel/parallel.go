// Package parallel does many things a few at a time.
package parallel

import "sync"

// Each calls f with 0 to n-1, at most atOnce of them at a time, and returns when all have returned. One alone is called on the caller's goroutine.
func Each(n, atOnce int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	all.Wait()
}
