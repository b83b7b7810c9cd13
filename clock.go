package retrysafe

import (
	"sync/atomic"
	"time"
)

// storeClock estimates the store's clock from its replies. The wall clock of this process does not
// matter: what passes between replies is measured by the monotonic clock.
type storeClock struct {
	base    time.Time
	known   atomic.Bool
	offset  atomic.Int64 // nanoseconds that the store is ahead of base + elapsed
	learned atomic.Int64 // nanoseconds from base to the last reply that was used
}

// at is the store's time at a moment of this process.
func (c *storeClock) at(local time.Time) time.Time {
	return c.base.Add(local.Sub(c.base) + time.Duration(c.offset.Load()))
}

// age is how old the last reply is that was used.
func (c *storeClock) age() time.Duration {
	return time.Since(c.base) - time.Duration(c.learned.Load())
}

// learnEvery is how old the estimate may be before the next reply is used. Clocks do not drift
// apart in that time.
const learnEvery = 100 * time.Millisecond

// learn takes the store's time in a reply to a request sent at sent: it was read about half-way.
func (c *storeClock) learn(storeNow, sent time.Time) {
	begun := sent.Sub(c.base)
	if storeNow.IsZero() || c.known.Load() && begun-time.Duration(c.learned.Load()) < learnEvery {
		return
	}
	local := begun + time.Since(sent)/2
	c.offset.Store(int64(storeNow.Sub(c.base.Round(0)) - local))
	c.learned.Store(int64(begun))
	c.known.Store(true)
}
