package storecall

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// clock estimates the store's clock from its replies. The wall clock of this process does not
// matter: the monotonic clock measures the time between replies.
type clock struct {
	base    time.Time
	known   atomic.Bool
	offset  atomic.Int64 // nanoseconds that the store is ahead of base + elapsed
	learned atomic.Int64 // nanoseconds from base to the last reply that was used
}

// learnEvery is the age of the estimate from which the next reply is used. Clocks do not drift
// apart in that time.
const learnEvery = 100 * time.Millisecond

// learn updates the estimate with the store's time in a reply to a request that was sent at sent.
// It assumes that the store read its clock halfway between request and reply.
func (c *clock) learn(storeNow, sent time.Time) {
	begun := sent.Sub(c.base)
	if storeNow.IsZero() || c.known.Load() && begun-time.Duration(c.learned.Load()) < learnEvery {
		return
	}
	local := begun + time.Since(sent)/2
	c.offset.Store(int64(storeNow.Sub(c.base.Round(0)) - local))
	c.learned.Store(int64(begun))
	c.known.Store(true)
}

// TimeAt returns the store's time at a time of this process.
func (s *Store) TimeAt(local time.Time) time.Time {
	return s.clock.base.Add(local.Sub(s.clock.base) + time.Duration(s.clock.offset.Load()))
}

// KnowsTime reports whether the store's clock is known.
func (s *Store) KnowsTime() bool { return s.clock.known.Load() }

// DoubtTime makes the next reply count, since a store has refused a request as too late.
func (s *Store) DoubtTime() { s.clock.known.Store(false) }

// TimeAge returns the age of the last reply that was used for the clock.
func (s *Store) TimeAge() time.Duration {
	return time.Since(s.clock.base) - time.Duration(s.clock.learned.Load())
}

// ReadTime reads the store's clock by looking up a key; any key will do.
func (s *Store) ReadTime(ctx context.Context, key storeapi.StoreKey) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	_, err := s.Lookup(ctx, key)
	return err
}

// NotAfter returns the store's time after which an Acquire that is sent at sent must not be
// applied.
func (s *Store) NotAfter(ctx context.Context, sent time.Time) time.Time {
	limit := Limit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, end.Sub(sent))
	}
	return s.TimeAt(sent).Add(limit)
}
