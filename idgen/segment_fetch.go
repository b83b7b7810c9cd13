package idgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// fetchRange asks the source for the next range until it gets one or further tries are useless.
func (s *Segment) fetchRange() {
	defer s.fetching.Done()
	s.mu.Lock()
	n := s.pacer.nextSize(time.Now(), &s.o)
	s.mu.Unlock()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, s.o.Retry) {
		wait = min(wait, s.o.Retry)
		if !s.tryFetch(n, wait) {
			return
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1)) // many processes may have lost it at once
		select {
		case <-timer.C:
		case <-s.lifeCtx.Done():
			timer.Stop()
			s.notifyClosed()
			return
		}
	}
}

// tryFetch asks once, and reports whether to ask again. Waiting callers get the result. Callers
// that come before the next try get the error at once.
func (s *Segment) tryFetch(n int64, wait time.Duration) (again bool) {
	ctx, cancel := context.WithTimeout(s.lifeCtx, s.o.Timeout)
	// After an error, values that the source may have assigned are never used.
	first, count, err := s.ranges.Allocate(ctx, s.tag, n)
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	tried := s.callDone
	defer close(tried)
	s.callDone = nil
	switch {
	case err == nil:
		s.next, s.lastErr = s.newSpan(first, count)
		s.pacer.recordRange(time.Now(), count)
		if s.lastErr != nil {
			s.current.Store(nil) // the rest of it may be assigned to others next
		}
	case s.lifeCtx.Err() != nil:
		s.lastErr = ErrClosed
	case errors.Is(err, ErrNoTag), errors.Is(err, ErrSpent), errors.Is(err, ErrTag):
		s.lastErr = err
		s.noCallBefore = time.Now().Add(wait) // an operator may create the tag
	default:
		s.lastErr = fmt.Errorf("%w; the source is asked again by itself: %w", ErrNoRange, err)
		s.callDone = make(chan struct{})
		return true
	}
	return false
}

// notifyClosed notifies callers that wait when the segment is closed between two tries.
func (s *Segment) notifyClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastErr = ErrClosed
	close(s.callDone)
	s.callDone = nil
}

// rangePacer decides how large ranges are.
type rangePacer struct {
	size int64
	seen int       // number of ranges
	last time.Time // when the last range came
}

// nextSize returns how many values to ask for now. From the third range on, a whole range was used
// between two calls.
func (p *rangePacer) nextSize(now time.Time, o *SegmentOptions) int64 {
	if p.seen < 2 {
		return p.size
	}
	switch lasted := now.Sub(p.last); {
	case lasted < o.Lasts:
		return max(p.size, min(2*p.size, o.MaxStep))
	case lasted > 2*o.Lasts:
		return max(p.size/2, o.Step, 1)
	}
	return p.size
}

func (p *rangePacer) recordRange(now time.Time, count int64) {
	p.size = count
	p.last = now
	p.seen++
}
