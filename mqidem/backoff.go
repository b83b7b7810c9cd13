package mqidem

import (
	"math/rand/v2"
	"time"
)

// Fixed waits d before each later try.
func Fixed(d time.Duration) func(try int) time.Duration {
	return func(int) time.Duration { return d }
}

// Exponential waits first behind the first try, and twice as long behind each further one, up to
// most; each wait is drawn between a half of that and the whole, so that what failed together does
// not come back together.
func Exponential(first, most time.Duration) func(try int) time.Duration {
	return func(try int) time.Duration {
		d := first
		for i := 1; i < try && d < most; i++ {
			if d > most/2 {
				d = most
				break
			}
			d *= 2
		}
		d = min(d, most)
		if d <= 0 {
			return 0
		}
		return d/2 + rand.N(d/2+1)
	}
}
