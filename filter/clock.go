package filter

import "time"

// windowClock returns the current window. Windows are numbered by the wall clock, so that saved
// windows keep their numbers. While a filter lives, the monotonic clock continues from there, so
// that setting the clock has no effect.
type windowClock struct {
	window time.Duration
	began  time.Time
	wall   int64 // in nanoseconds, at began
}

func newWindowClock(window time.Duration) windowClock {
	now := time.Now()
	return windowClock{window: window, began: now, wall: now.UnixNano()}
}

// currentWindow returns the number of the current window; it is always zero without windows.
func (c *windowClock) currentWindow() int64 {
	if c.window == 0 {
		return 0
	}
	return (c.wall + int64(time.Since(c.began))) / int64(c.window)
}
