package idgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// fetch asks the source for the next range until it gets one or further tries are useless.
func (s *Segment) fetch() {
	defer s.fetching.Done()
	s.mu.Lock()
	n := s.pace.ask(time.Now(), &s.o)
	s.mu.Unlock()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, s.o.Retry) {
		wait = min(wait, s.o.Retry)
		if !s.try(n, wait) {
			return
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1)) // many processes may have lost it at once
		select {
		case <-timer.C:
		case <-s.life.Done():
			timer.Stop()
			s.end()
			return
		}
	}
}

// try asks once, and reports whether to ask again. Waiting callers get the result. Callers that
// come before the next try get the error at once.
func (s *Segment) try(n int64, wait time.Duration) (again bool) {
	ctx, cancel := context.WithTimeout(s.life, s.o.Timeout)
	// After an error, values that the source may have assigned are never used.
	first, count, err := s.ranges.Allocate(ctx, s.tag, n)
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	tried := s.tried
	defer close(tried)
	s.tried = nil
	switch {
	case err == nil:
		s.next, s.failed = s.newSpan(first, count)
		s.pace.got(time.Now(), count)
		if s.failed != nil {
			s.current.Store(nil) // the rest of it may be assigned to others next
		}
	case s.life.Err() != nil:
		s.failed = ErrClosed
	case errors.Is(err, ErrNoTag), errors.Is(err, ErrSpent), errors.Is(err, ErrTag):
		s.failed = err
		s.notTill = time.Now().Add(wait) // an operator may create the tag
	default:
		s.failed = fmt.Errorf("%w; the source is asked again by itself: %w", ErrNoRange, err)
		s.tried = make(chan struct{})
		return true
	}
	return false
}

// end notifies callers that wait when the segment is closed between two tries.
func (s *Segment) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = ErrClosed
	close(s.tried)
	s.tried = nil
}

// pace decides how large ranges are.
type pace struct {
	size int64
	seen int       // number of ranges
	last time.Time // when the last range came
}

// ask returns how many values to ask for now. From the third range on, a whole range was used
// between two calls.
func (p *pace) ask(now time.Time, o *SegmentOptions) int64 {
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

func (p *pace) got(now time.Time, count int64) {
	p.size = count
	p.last = now
	p.seen++
}
