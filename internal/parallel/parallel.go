// Package parallel runs many calls, a few at a time.
package parallel

import "sync"

// Each calls f with 0 to n-1, at most atOnce calls concurrently, and returns when all have
// returned. If n is 1, it calls f on the caller's goroutine. If f panics, Each panics with the
// first panic after all calls have returned.
func Each(n, atOnce int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	var mu sync.Mutex
	var crash any
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					mu.Lock()
					if crash == nil {
						crash = p
					}
					mu.Unlock()
				}
				<-turns
			}()
			f(i)
		})
	}
	all.Wait()
	if crash != nil {
		panic(crash)
	}
}
