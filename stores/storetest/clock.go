package storetest

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that moves only when a test moves it. A store that accepts a clock can be tested
// with it without waiting.
type Clock struct{ nanos atomic.Int64 }

// NewClock returns a clock that shows a time in 2026.
func NewClock() *Clock {
	c := new(Clock)
	c.nanos.Store(time.Date(2026, time.March, 29, 0, 59, 59, 123_456_000, time.UTC).UnixNano())
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Rewind moves the clock back by d.
func (c *Clock) Rewind(d time.Duration) { c.nanos.Add(-int64(d)) }
