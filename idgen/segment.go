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
	// ErrNoRange means that both ranges are used up, and that the source has not assigned another.
	// The error says why.
	ErrNoRange = errors.New("idgen: the ranges at hand are used up, and there is no new one")
	// ErrWentBack means that the source has assigned values that this process got before, or
	// invalid ones: it has lost what it had confirmed. The segment makes no more ids.
	ErrWentBack = errors.New("idgen: the source of ranges gave values that it had given before, or that are none; it has lost writes (a failover, an old copy): " +
		"set the tag above all ids that are in use, and start again")
	// ErrClosed means that the segment was closed.
	ErrClosed = errors.New("idgen: the segment is closed")
)

// SegmentOptions configures a [Segment]. A nil *SegmentOptions and zero fields mean the defaults.
type SegmentOptions struct {
	// Step is how many values a range has at least; default 1. The step of the source applies if it
	// is larger.
	Step int64
	// MaxStep limits how far ranges grow; default 1 000 000. A larger Step, or a larger step of the
	// source, still applies.
	MaxStep int64
	// Lasts is how long a range should last; default 15 min. If a range is used up sooner, the next
	// one is twice as large. If it lasts more than twice as long, the next one is half as large.
	Lasts time.Duration
	// Timeout is how long one call waits for the source; default 5 s.
	Timeout time.Duration
	// Retry is the longest wait between two calls of a source that fails; default 2 s. The first
	// wait is at most 50 ms.
	Retry time.Duration
}

// Segment returns the values of one tag from ranges that a source assigns. It holds up to two
// ranges: when a tenth of the current one is used, it fetches the next one in the background. So
// callers wait for the source only if it takes longer than the rest of the current range lasts.
// Without the source, the segment continues until both ranges are used up. A process that dies
// wastes at most these two ranges. A range whose reply was lost is never used. The values of one
// process grow.
//
// It is safe for concurrent use; taking an id is one atomic addition. Close ends the background
// work.
//
// Source: the segment mode of Meituan's Leaf.
type Segment struct {
	ranges  Ranges
	tag     string
	o       SegmentOptions
	current atomic.Pointer[span]

	lifeCtx  context.Context
	stop     context.CancelFunc
	fetching sync.WaitGroup

	mu   sync.Mutex
	next *span
	// callDone is closed at the end of the current call, or of the next one; nil if no call is due.
	callDone     chan struct{}
	lastErr      error     // why there is no next range
	noCallBefore time.Time // no call before this time
	pacer        rangePacer
	highest      int64 // value that the source has assigned
}

// span is a range in use.
type span struct {
	first, size int64
	low         int64 // taking this one starts the fetch of the next range
	_           [40]byte
	taken       atomic.Int64 // on a cache line of its own
}

// NewSegment returns a segment. It first calls the source when the first id is requested.
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
	s.pacer = rangePacer{size: max(s.o.Step, 1)}
	s.lifeCtx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Next returns an id. It waits for the source, until ctx ends, only if both ranges are used up. If
// the source has failed by then, it returns [ErrNoRange] with the cause, and no id was taken. Later
// calls notice when the source is back; not every call asks it.
func (s *Segment) Next(ctx context.Context) (ID, error) {
	first, _, err := s.takeValues(ctx, 1)
	return ID(first), err
}

// NextN returns n ids, 1 to 1 000 000, in growing order. Other callers may get some in between. If
// it fails, the ids that it has taken so far are never used.
func (s *Segment) NextN(ctx context.Context, n int) ([]ID, error) {
	if n < 1 || n > 1_000_000 {
		return nil, fmt.Errorf("idgen: %d ids at once; ask for 1 to 1000000", n)
	}
	ids := make([]ID, 0, n)
	for len(ids) < n {
		first, got, err := s.takeValues(ctx, int64(n-len(ids)))
		if err != nil {
			return nil, err
		}
		for i := range got {
			ids = append(ids, ID(first+i))
		}
	}
	return ids, nil
}

// Left returns how many ids are left without another call of the source, for a metric.
func (s *Segment) Left() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.next.remaining()
	return left + s.current.Load().remaining()
}

func (k *span) remaining() int64 {
	if k == nil {
		return 0
	}
	return k.size - min(k.taken.Load(), k.size)
}

// Close ends the background work and waits for it. Afterwards there are no ids; those that are left
// are wasted. It returns nil.
func (s *Segment) Close() error {
	s.stop()
	s.fetching.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(nil)
	s.next = nil
	return nil
}

// takeValues returns up to n consecutive values, at least one.
func (s *Segment) takeValues(ctx context.Context, n int64) (first, got int64, err error) {
	for {
		k := s.current.Load()
		if k != nil && k.taken.Load() < k.size { // limits taken to size plus callers
			if at := k.taken.Add(n) - n; at < k.size {
				got = min(n, k.size-at)
				if at <= k.low && k.low < at+got {
					s.fetchAhead()
				}
				return k.first + at, got, nil
			}
		}
		if err := s.switchRange(ctx, k); err != nil {
			return 0, 0, err
		}
	}
}

// fetchAhead starts the fetch of the next range, unless there is one or a fetch is in progress.
func (s *Segment) fetchAhead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.startFetch()
	}
}

// startFetch starts a fetch, unless one is in progress. The caller holds the lock.
func (s *Segment) startFetch() {
	if s.callDone != nil || s.lifeCtx.Err() != nil || errors.Is(s.lastErr, ErrWentBack) || time.Now().Before(s.noCallBefore) {
		return
	}
	s.callDone, s.lastErr = make(chan struct{}), nil
	s.fetching.Add(1)
	go s.fetchRange()
}

// switchRange switches to the range after old and waits for it, unless another caller has switched.
func (s *Segment) switchRange(ctx context.Context, old *span) error {
	s.mu.Lock()
	if s.replaceRange(old) {
		s.mu.Unlock()
		return nil
	}
	s.startFetch()
	tried, err := s.callDone, s.lastErr
	if s.lifeCtx.Err() != nil {
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
	if s.replaceRange(old) {
		return nil
	}
	return s.lastErr
}

// replaceRange replaces old by the next range, if there is one, and reports whether old was
// replaced. The caller holds the lock.
func (s *Segment) replaceRange(old *span) bool {
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

// newSpan checks what the source has assigned.
func (s *Segment) newSpan(first, count int64) (*span, error) {
	if count < 1 || first <= s.highest || first < 1 || first > math.MaxInt64-count+1 {
		return nil, ErrWentBack // permanent: startFetch checks it
	}
	s.highest = first + count - 1
	return &span{first: first, size: count, low: count / 10}, nil
}
