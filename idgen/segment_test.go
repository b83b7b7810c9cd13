package idgen_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// source is a source that tests inspect and make fail.
type source struct {
	*memranges.Ranges
	mu     sync.Mutex
	takes  []time.Time
	counts []int64
	fault  func(n int, first, count int64) (int64, int64, error) // of n-th call, once done
	slow   time.Duration
}

var errAway = errors.New("no route to host")

func newSource(t *testing.T, step int64) *source {
	t.Helper()
	s := &source{Ranges: memranges.New()}
	_, err := s.Create(t.Context(), "order", 1, step)
	assert.NoError(t, err, "Create")
	return s
}

func (s *source) Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error) {
	if s.slow > 0 {
		select {
		case <-time.After(s.slow):
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	}
	first, count, err = s.Ranges.Allocate(ctx, tag, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.counts = append(s.takes, time.Now()), append(s.counts, count)
	if s.fault != nil && err == nil {
		return s.fault(len(s.takes), first, count)
	}
	return first, count, err
}

func (s *source) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.takes)
}

func (s *source) requestedSizes() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.counts)
}

func (s *source) setFault(f func(n int, first, count int64) (int64, int64, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func sourceAway(int, int64, int64) (int64, int64, error) { return 0, 0, errAway }

func segment(t *testing.T, r idgen.Ranges, o *idgen.SegmentOptions) *idgen.Segment {
	t.Helper()
	s, err := idgen.NewSegment(r, "order", o)
	assert.NoError(t, err, "segment")
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestSegmentUnique: two processes with many callers each make no id twice, those of a caller grow,
// and each process wastes at most two ranges.
func TestSegmentUnique(t *testing.T) {
	t.Parallel()
	src := newSource(t, 1000)
	o := &idgen.SegmentOptions{MaxStep: 4000}
	processes := []*idgen.Segment{segment(t, src, o), segment(t, src, o)}
	const callers, each = 8, 20_000
	all := make([][]idgen.ID, callers)
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			for s := processes[i%2]; len(all[i]) < each; {
				if i%4 < 2 {
					all[i] = append(all[i], next(t, s))
					continue
				}
				ids, err := s.NextN(t.Context(), 100)
				assert.NoError(t, err, "NextN")
				all[i] = append(all[i], ids...)
			}
		})
	}
	running.Wait()
	for i, ids := range all {
		assert.True(t, slices.IsSorted(ids), "the ids of caller %d rise", i)
	}
	ids := slices.Concat(all...)
	slices.Sort(ids)
	assert.Equal(t, len(slices.Compact(ids)), callers*each, "different ids")
	for _, s := range processes {
		s.Close() // waits for the range in flight
	}
	first, _, err := src.Ranges.Allocate(t.Context(), "order", 1)
	assert.NoError(t, err, "Allocate")
	assert.True(t, first-1-callers*each <= 2*2*4000, "%d values were given for %d ids", first-1, callers*each)
}

// TestSegmentDoesNotWait: callers wait for the first range, and not again as long as each range
// arrives before the current one is used up.
func TestSegmentDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newSource(t, 1000)
		src.slow = time.Second
		s := segment(t, src, &idgen.SegmentOptions{MaxStep: 1000})
		defer s.Close()
		next(t, s)
		for i := range 20_000 {
			begun := time.Now()
			id := next(t, s)
			assert.Equal(t, time.Since(begun), 0, "waiting for id %d", i)
			assert.Equal(t, id, idgen.ID(i+2), "id")
			time.Sleep(2 * time.Millisecond) // a range lasts two seconds
		}
		assert.True(t, s.Left() > 0, "ids are left")
	})
}

// TestSegmentSourceAway: while the source is unreachable, ids last for two ranges. Then an error
// says why, one caller retries from time to time, and ids continue when the source is back.
func TestSegmentSourceAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newSource(t, 100)
		s := segment(t, src, &idgen.SegmentOptions{MaxStep: 100})
		defer s.Close()
		next(t, s)
		synctest.Wait()
		for range 10 { // the second range is fetched
			next(t, s)
		}
		synctest.Wait()
		assert.Equal(t, src.calls(), 2, "ranges")
		src.setFault(sourceAway)
		for i := range 189 {
			id := next(t, s)
			assert.Equal(t, id, idgen.ID(i+12), "while the source is away")
		}
		assert.Equal(t, s.Left(), int64(0), "Left")
		before := src.calls()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for range 60 {
					_, err := s.Next(t.Context())
					assert.ErrorIs(t, err, idgen.ErrNoRange, "nothing is left")
					assert.ErrorIs(t, err, errAway, "why")
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		asked := src.calls() - before
		assert.True(t, asked > 20 && asked < 100, "100 callers have let the source be asked %d times in a minute", asked)
		src.setFault(nil)
		time.Sleep(2 * time.Second)
		id := next(t, s)
		assert.True(t, id > 200, "behind what was lost: %d", id)
	})
}

// TestSegmentLostReply: a range whose reply was lost is never used.
func TestSegmentLostReply(t *testing.T) {
	t.Parallel()
	for lost := 1; lost <= 4; lost++ {
		synctest.Test(t, func(t *testing.T) {
			src := newSource(t, 10)
			var gone atomic.Pointer[[2]int64]
			gone.Store(new([2]int64))
			src.setFault(func(n int, first, count int64) (int64, int64, error) {
				if n == lost {
					gone.Store(&[2]int64{first, first + count - 1})
					return 0, 0, errAway
				}
				return first, count, nil
			})
			s := segment(t, src, &idgen.SegmentOptions{MaxStep: 10})
			defer s.Close()
			last := idgen.ID(0)
			for made, tries := 0, 0; made < 100; tries++ {
				assert.True(t, tries < 200, "it goes on")
				id, err := s.Next(t.Context())
				if err != nil {
					assert.ErrorIs(t, err, idgen.ErrNoRange, "the error")
					time.Sleep(time.Second)
					continue
				}
				made++
				lost := gone.Load()
				assert.True(t, id > last && (int64(id) < lost[0] || int64(id) > lost[1]), "%d follows %d, and %v is lost", id, last, lost)
				last = id
			}
		})
	}
}

// TestSegmentContexts: a caller whose context ends does not wait, takes nothing, and does not end
// the call that others wait for. A source that hangs does not hold up a caller.
func TestSegmentContexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newSource(t, 100)
		src.slow = 3 * time.Second
		s := segment(t, src, nil)
		var stays idgen.ID
		var all sync.WaitGroup
		all.Go(func() { stays = next(t, s) })
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Next(ctx)
		cancel()
		assert.ErrorIs(t, err, context.DeadlineExceeded, "who leaves")
		assert.Equal(t, time.Since(begun), time.Second, "after")
		all.Wait()
		assert.Equal(t, stays, idgen.ID(1), "who stays")
		s.Close()
		_, err = s.Next(t.Context())
		assert.ErrorIs(t, err, idgen.ErrClosed, "behind Close")

		src.slow = time.Hour
		hung := segment(t, src, nil)
		begun = time.Now()
		_, err = hung.Next(t.Context())
		assert.ErrorIs(t, err, idgen.ErrNoRange, "a source that hangs")
		assert.Equal(t, time.Since(begun), 5*time.Second, "it is left after")
		all.Go(func() {
			_, err := hung.Next(context.Background())
			for errors.Is(err, idgen.ErrNoRange) {
				time.Sleep(time.Millisecond)
				_, err = hung.Next(context.Background())
			}
			assert.ErrorIs(t, err, idgen.ErrClosed, "who waits when it is closed")
		})
		time.Sleep(time.Minute)
		hung.Close()
		all.Wait()
	})
}

// TestSegmentPace: ranges double while they are used up quickly, up to the limit, and halve while
// they last, down to the source's step.
func TestSegmentPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newSource(t, 100)
		s := segment(t, src, &idgen.SegmentOptions{MaxStep: 1500, Lasts: time.Minute})
		defer s.Close()
		use := func(every time.Duration, until int64) {
			t.Helper()
			for n := 0; ; n++ {
				assert.True(t, n < 100_000, "the step becomes %d", until)
				next(t, s)
				time.Sleep(every)
				synctest.Wait()
				if all := src.requestedSizes(); all[len(all)-1] == until {
					return
				}
			}
		}
		use(10*time.Millisecond, 1500)
		assert.Equal(t, src.requestedSizes(), []int64{100, 100, 200, 400, 800, 1500}, "growing")
		for range 3000 {
			next(t, s)
			time.Sleep(60 * time.Millisecond) // 90 s for a range: no change
		}
		assert.True(t, !slices.ContainsFunc(src.requestedSizes()[5:], func(n int64) bool { return n != 1500 }), "as it should be")
		use(time.Second, 100)
		assert.Equal(t, src.requestedSizes()[len(src.requestedSizes())-4:], []int64{750, 375, 187, 100}, "shrinking")
	})
}

// TestSegmentWentBack: a range that a source assigns again is never used, nor is any after it.
func TestSegmentWentBack(t *testing.T) {
	t.Parallel()
	for name, gives := range map[string]func(first, count int64) (int64, int64){
		"again":    func(first, count int64) (int64, int64) { return first - count, count },
		"a part":   func(first, count int64) (int64, int64) { return first - 1, count },
		"nothing":  func(first, _ int64) (int64, int64) { return first, 0 },
		"negative": func(int64, int64) (int64, int64) { return -5, 10 },
		"too far":  func(int64, int64) (int64, int64) { return 1<<63 - 5, 100 },
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newSource(t, 100)
			src.setFault(func(n int, first, count int64) (int64, int64, error) {
				if n == 3 {
					first, count = gives(first, count)
				}
				return first, count, nil
			})
			s := segment(t, src, nil)
			defer s.Close()
			var err error
			for i := 0; i < 1000 && err == nil; i++ {
				_, err = s.Next(t.Context())
				synctest.Wait()
			}
			assert.ErrorIs(t, err, idgen.ErrWentBack, "%s", name)
			time.Sleep(time.Hour)
			_, err = s.Next(t.Context())
			assert.ErrorIs(t, err, idgen.ErrWentBack, "%s: for good", name)
			assert.Equal(t, src.calls(), 3, "%s: calls", name)
		})
	}
}

// TestSegmentNoTag: a missing tag is an error at once, causes few calls of the source, and works as
// soon as it is created.
func TestSegmentNoTag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{Ranges: memranges.New()}
		s := segment(t, src, nil)
		defer s.Close()
		for range 1000 {
			_, err := s.Next(t.Context())
			assert.ErrorIs(t, err, idgen.ErrNoTag, "before it is made")
			time.Sleep(time.Millisecond)
		}
		assert.True(t, src.calls() <= 21, "a second of calls has asked %d times", src.calls())
		_, err := src.Create(t.Context(), "order", 5000, 10)
		assert.NoError(t, err, "Create")
		time.Sleep(time.Second)
		assert.Equal(t, next(t, s), idgen.ID(5000), "the first")
	})
}

func TestSegmentOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*idgen.SegmentOptions{
		"step": {Step: -1}, "large step": {Step: 1 << 50}, "max": {MaxStep: -1}, "lasts": {Lasts: -1}, "timeout": {Timeout: -1}, "retry": {Retry: -1},
	} {
		_, err := idgen.NewSegment(memranges.New(), "order", o)
		assert.True(t, err != nil, "%s is refused", name)
	}
	_, err := idgen.NewSegment(nil, "order", nil)
	assert.True(t, err != nil, "no source")
	for _, tag := range []string{"", " a", "a\n", "a\u00a0", "\xff", string(make([]byte, 200))} {
		_, err := idgen.NewSegment(memranges.New(), tag, nil)
		assert.ErrorIs(t, err, idgen.ErrTag, "the tag %q", tag)
	}
	s := segment(t, newSource(t, 100), nil)
	for _, n := range []int{0, -1, 1_000_001} {
		_, err := s.NextN(t.Context(), n)
		assert.True(t, err != nil, "%d ids at once", n)
	}
}
