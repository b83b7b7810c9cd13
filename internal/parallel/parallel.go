// Package parallel does many things a few at a time.
package parallel

import "sync"

// Each calls f with 0 to n-1, at most atOnce of them at a time, and returns when all have returned.
// One alone is called on the caller's goroutine. A panic of f is the caller's, the first of
// several, when all have returned.
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
