package filter

import "time"

// windowClock tells which window it is. Windows are counted on the wall clock, so that what was
// saved finds its place again; while a filter lives the monotonic clock goes on from there, so that
// a clock that is set moves nothing.
type windowClock struct {
	window time.Duration
	began  time.Time
	wall   int64 // in nanoseconds, at began
}

func newWindowClock(window time.Duration) windowClock {
	now := time.Now()
	return windowClock{window: window, began: now, wall: now.UnixNano()}
}

// turn is the number of the window of now; always zero without windows.
func (c *windowClock) turn() int64 {
	if c.window == 0 {
		return 0
	}
	return (c.wall + int64(time.Since(c.began))) / int64(c.window)
}
