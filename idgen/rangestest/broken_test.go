package rangestest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/idgen/rangestest"
)

// source is a correct source, except for the functions that are set.
type source struct {
	*memranges.Ranges
	take   func(ctx context.Context, tag string, n int64) (first, count int64, err error)
	create func(ctx context.Context, tag string, first int64) error
}

func (s *source) Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error) {
	if s.take != nil {
		return s.take(ctx, tag, n)
	}
	return s.Ranges.Allocate(ctx, tag, n)
}

func config(s *source) rangestest.Config {
	return rangestest.Config{
		Open: func(testing.TB) idgen.Ranges { return s },
		Create: func(ctx context.Context, _ idgen.Ranges, tag string, first int64) error {
			if s.create != nil {
				return s.create(ctx, tag, first)
			}
			_, err := s.Create(ctx, tag, first, 1)
			return err
		},
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	rangestest.Run(t, config(&source{Ranges: memranges.New()}))
}

// TestBrokenRanges: its clause finds each fault.
func TestBrokenRanges(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, clause string
		breaks       func(*source)
	}{
		{"reads, and then writes", "R1", func(s *source) {
			var mu sync.Mutex
			calls, first := 0, int64(0)
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls%10 == 0 { // sometimes another caller has read the same
					return first, n, nil
				}
				var count int64
				var err error
				first, count, err = s.Ranges.Allocate(ctx, tag, n)
				return first, count, err
			}
		}},
		{"the last value is the next one's first", "R1", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				first, count, err := s.Ranges.Allocate(ctx, tag, n)
				return first, count + 1, err
			}
		}},
		{"begins with zero", "R1", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				first, count, err := s.Ranges.Allocate(ctx, tag, n)
				return first - 1, count, err
			}
		}},
		{"gives less", "R2", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				first, _, err := s.Ranges.Allocate(ctx, tag, n)
				return first, min(n, 500), err
			}
		}},
		{"counts in floating point", "R2", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				first, count, err := s.Ranges.Allocate(ctx, tag, n)
				return int64(float64(first)), count, err
			}
		}},
		{"makes tags by itself", "R3", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				_, _ = s.Create(ctx, tag, 1, 1)
				return s.Ranges.Allocate(ctx, tag, n)
			}
		}},
		{"folds names", "R4", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				return s.Ranges.Allocate(ctx, strings.ToLower(tag), n)
			}
			s.create = func(ctx context.Context, tag string, first int64) error {
				_, err := s.Create(ctx, strings.ToLower(tag), first, 1)
				return err
			}
		}},
		{"cuts names", "R4", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				return s.Ranges.Allocate(ctx, tag[:min(len(tag), 64)], n)
			}
			s.create = func(ctx context.Context, tag string, first int64) error {
				_, err := s.Create(ctx, tag[:min(len(tag), 64)], first, 1)
				return err
			}
		}},
		{"looks at no context", "R5", func(s *source) {
			s.take = func(_ context.Context, tag string, n int64) (int64, int64, error) {
				return s.Ranges.Allocate(context.Background(), tag, n)
			}
		}},
		{"begins anew at the end", "R6", func(s *source) {
			s.take = func(ctx context.Context, tag string, n int64) (int64, int64, error) {
				first, count, err := s.Ranges.Allocate(ctx, tag, n)
				if errors.Is(err, idgen.ErrSpent) {
					return 1, n, nil
				}
				return first, count, err
			}
		}},
		{"made again from the beginning", "R7", func(s *source) {
			s.create = func(ctx context.Context, tag string, first int64) error {
				s.Ranges = memranges.New()
				_, err := s.Create(ctx, tag, first, 1)
				return err
			}
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := &source{Ranges: memranges.New()}
			one.breaks(s)
			c := config(s)
			c.Patience = 5 * time.Second // a fault that hangs is found after it
			err := rangestest.Check(t, c, one.clause)
			if err == nil {
				t.Fatalf("%s finds nothing wrong", one.clause)
			}
			t.Log(err)
		})
	}
}
