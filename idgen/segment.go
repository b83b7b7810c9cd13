package idgen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// The errors of segments; test with errors.Is.
var (
	// ErrNoRange: both ranges are used up, and the source has given no other one. The error says
	// why.
	ErrNoRange = errors.New("idgen: the ranges at hand are used up, and there is no new one")
	// ErrWentBack: the source has given values that this process has got before, or none at all: it
	// has lost what it had confirmed. The segment makes no more ids.
	ErrWentBack = errors.New("idgen: the source of ranges gave values that it had given before, or that are none; it has lost writes (a failover, an old copy): " +
		"set the tag above all ids that are in use, and start anew")
	// ErrClosed: the segment was closed.
	ErrClosed = errors.New("idgen: the segment is closed")
)

// SegmentOptions configure a [Segment]; nil and every zero field are fine.
type SegmentOptions struct {
	// Step is how many values a range has at least; default 1: the step of the source counts, which
	// is more.
	Step int64
	// MaxStep is how far ranges grow; default 1 000 000. A larger Step, or step of the source,
	// stands.
	MaxStep int64
	// Lasts is how long a range should last; default 15 min. One that is used up sooner is followed
	// by one of twice the size, and one that lasts more than twice as long by one of half of it.
	Lasts time.Duration
	// Timeout is how long the source is waited for in one call; default 5 s.
	Timeout time.Duration
	// Retry is the longest wait between two calls of a source that fails; default 2 s. The first
	// wait is 50 ms at most.
	Retry time.Duration
}

// Segment hands out the values of one tag from ranges that a source gives, two at a time: the next
// one is fetched in the background when a tenth of the current one is used, so that callers wait
// for the source only where it takes longer than the rest lasts. It goes on without the source for
// as long as the two last. A process that dies wastes them, and no more; a range whose reply was
// lost is nobody's. The values of one process rise.
//
// It is safe for concurrent use; taking an id is one atomic addition. Close ends what runs in the
// background.
//
// Source: the segment mode of Meituan's Leaf.
type Segment struct {
	ranges  Ranges
	tag     string
	o       SegmentOptions
	current atomic.Pointer[span]

	life     context.Context
	stop     context.CancelFunc
	fetching sync.WaitGroup

	mu   sync.Mutex
	next *span
	// closed with the end of the call that runs, or that comes; nil: nobody fetches
	tried   chan struct{}
	failed  error     // why there is no next one
	notTill time.Time // no call before
	pace    pace
	highest int64 // value that was given to us
}

// span is a range at work.
type span struct {
	first, size int64
	low         int64 // whoever takes this one lets the next range be fetched
	_           [40]byte
	taken       atomic.Int64 // on a line of its own
}

// NewSegment returns one; it asks the source when the first id is asked for.
func NewSegment(r Ranges, tag string, o *SegmentOptions) (*Segment, error) {
	s := &Segment{ranges: r, tag: tag}
	if o != nil {
		s.o = *o
	}
	s.o.Step = max(s.o.Step, 0)
	for v, otherwise := range map[*time.Duration]time.Duration{&s.o.Lasts: 15 * time.Minute, &s.o.Timeout: 5 * time.Second, &s.o.Retry: 2 * time.Second} {
		if *v == 0 {
			*v = otherwise
		}
	}
	if s.o.MaxStep == 0 {
		s.o.MaxStep = 1_000_000
	}
	switch {
	case r == nil:
		return nil, errors.New("idgen: NewSegment needs ranges; packages sqlranges and redisranges have them")
	case o != nil && o.Step < 0 || s.o.MaxStep < 1 || s.o.Step > MaxStep || s.o.MaxStep > MaxStep:
		return nil, fmt.Errorf("idgen: Step and MaxStep are %d and %d; use 1 to %d", s.o.Step, s.o.MaxStep, int64(MaxStep))
	case s.o.Lasts < 0 || s.o.Timeout < 0 || s.o.Retry < 0:
		return nil, fmt.Errorf("idgen: Lasts is %v, Timeout %v and Retry %v; use positive times, or zero for the defaults", s.o.Lasts, s.o.Timeout, s.o.Retry)
	}
	if err := CheckTag(tag); err != nil {
		return nil, err
	}
	s.pace = pace{size: max(s.o.Step, 1)}
	s.life, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Next takes an id. It waits for the source, for as long as ctx lives, only where both ranges are
// used up. [ErrNoRange], with the cause, where the source has failed by then: nothing was taken,
// and later calls find out whether it is back, without asking it each.
func (s *Segment) Next(ctx context.Context) (ID, error) {
	first, _, err := s.take(ctx, 1)
	return ID(first), err
}

// NextN takes n ids, 1 to 1 000 000, that rise; other callers may get some in between. Where it
// fails, what it has taken so far is nobody's.
func (s *Segment) NextN(ctx context.Context, n int) ([]ID, error) {
	if n < 1 || n > 1_000_000 {
		return nil, fmt.Errorf("idgen: %d ids at once; ask for 1 to 1000000", n)
	}
	ids := make([]ID, 0, n)
	for len(ids) < n {
		first, got, err := s.take(ctx, int64(n-len(ids)))
		if err != nil {
			return nil, err
		}
		for i := range got {
			ids = append(ids, ID(first+i))
		}
	}
	return ids, nil
}

// Left is how many ids there are without another word of the source, for a metric.
func (s *Segment) Left() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.next.left()
	return left + s.current.Load().left()
}

func (k *span) left() int64 {
	if k == nil {
		return 0
	}
	return k.size - min(k.taken.Load(), k.size)
}

// Close ends what runs in the background, and waits for it. There are no ids afterwards; those that
// are left are wasted.
func (s *Segment) Close() {
	s.stop()
	s.fetching.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(nil)
	s.next = nil
}

// take takes up to n values in a row, at least one.
func (s *Segment) take(ctx context.Context, n int64) (first, got int64, err error) {
	for {
		k := s.current.Load()
		if k != nil && k.taken.Load() < k.size { // counts no further than that many callers
			if at := k.taken.Add(n) - n; at < k.size {
				got = min(n, k.size-at)
				if at <= k.low && k.low < at+got {
					s.ahead()
				}
				return k.first + at, got, nil
			}
		}
		if err := s.turn(ctx, k); err != nil {
			return 0, 0, err
		}
	}
}

// ahead lets the next range be fetched, unless it is there or on its way.
func (s *Segment) ahead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.begin()
	}
}

// begin lets somebody fetch, unless somebody does. It is called with the lock held.
func (s *Segment) begin() {
	if s.tried != nil || s.life.Err() != nil || errors.Is(s.failed, ErrWentBack) || time.Now().Before(s.notTill) {
		return
	}
	s.tried, s.failed = make(chan struct{}), nil
	s.fetching.Add(1)
	go s.fetch()
}

// turn goes on to the range behind old, unless somebody has, and waits for it.
func (s *Segment) turn(ctx context.Context, old *span) error {
	s.mu.Lock()
	if s.moved(old) {
		s.mu.Unlock()
		return nil
	}
	s.begin()
	tried, err := s.tried, s.failed
	if s.life.Err() != nil {
		err = ErrClosed
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-tried:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved(old) {
		return nil
	}
	return s.failed
}

// moved puts the next range in the place of old, if it is there. It is called with the lock held.
func (s *Segment) moved(old *span) bool {
	if s.current.Load() != old {
		return true
	}
	if s.next == nil {
		return false
	}
	s.current.Store(s.next)
	s.next = nil
	return true
}

// newSpan checks what the source has given.
func (s *Segment) newSpan(first, count int64) (*span, error) {
	if count < 1 || first <= s.highest || first < 1 || first > math.MaxInt64-count+1 {
		return nil, ErrWentBack // for good: begin sees to that
	}
	s.highest = first + count - 1
	return &span{first: first, size: count, low: count / 10}, nil
}
