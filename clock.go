package retrysafe

import (
	"sync/atomic"
	"time"
)

// storeClock estimates the store's clock from its replies. The wall clock of this process does not matter: what passes between replies
// is measured by the monotonic clock.
type storeClock struct {
	base   time.Time
	known  atomic.Bool
	offset atomic.Int64 // nanoseconds that the store is ahead of base + elapsed
}

func (c *storeClock) now() time.Time {
	return c.base.Add(time.Since(c.base) + time.Duration(c.offset.Load()))
}

// learn takes the store's time in a reply to a request sent at sent: it was read about half-way.
func (c *storeClock) learn(storeNow, sent time.Time) {
	if storeNow.IsZero() {
		return
	}
	local := sent.Add(time.Since(sent) / 2).Sub(c.base)
	c.offset.Store(int64(storeNow.Sub(c.base.Round(0)) - local))
	c.known.Store(true)
}
