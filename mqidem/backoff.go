package mqidem

import (
	"math/rand/v2"
	"time"
)

// Fixed returns a backoff that waits d before each later try.
func Fixed(d time.Duration) func(try int) time.Duration {
	return func(int) time.Duration { return d }
}

// Exponential returns a backoff that waits first after the first try and doubles after each further
// one, up to most. Each wait is random, between half of that and the whole, so that messages that
// failed together do not return together.
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
