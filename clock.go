package retrysafe

import (
	"sync/atomic"
	"time"
)

// storeClock estimates the store's clock from its replies. The wall clock of this process does not
// matter: the monotonic clock measures the time between replies.
type storeClock struct {
	base    time.Time
	known   atomic.Bool
	offset  atomic.Int64 // nanoseconds that the store is ahead of base + elapsed
	learned atomic.Int64 // nanoseconds from base to the last reply that was used
}

// at returns the store's time at a time of this process.
func (c *storeClock) at(local time.Time) time.Time {
	return c.base.Add(local.Sub(c.base) + time.Duration(c.offset.Load()))
}

// age returns the age of the last reply that was used.
func (c *storeClock) age() time.Duration {
	return time.Since(c.base) - time.Duration(c.learned.Load())
}

// learnEvery is the age of the estimate from which the next reply is used. Clocks do not drift
// apart in that time.
const learnEvery = 100 * time.Millisecond

// learn updates the estimate with the store's time in a reply to a request that was sent at sent.
// It assumes that the store read its clock halfway between request and reply.
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
