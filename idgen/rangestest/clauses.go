package rangestest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe/idgen"
)

// valueRange is a range; last is its last value.
type valueRange struct{ first, last int64 }

// allocate takes a range, which must succeed, and checks it.
func (e *env) allocate(r idgen.Ranges, tag string, n int64) (valueRange, error) {
	first, count, err := r.Allocate(e.ctx, tag, n)
	switch {
	case err != nil:
		return valueRange{}, fmt.Errorf("Allocate of %d: %w", n, err)
	case count < n:
		return valueRange{}, fmt.Errorf("Allocate of %d gave %d values", n, count)
	case first < 1 || first > math.MaxInt64-count+1:
		return valueRange{}, fmt.Errorf("Allocate of %d gave %d values from %d, which are not all from 1 to 2^63-1", n, count, first)
	}
	return valueRange{first, first + count - 1}, nil
}

func eachValueOnce(e *env) error {
	if err := e.Create(e.ctx, e.a, e.tag, 1); err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	var mu sync.Mutex
	var errs []error
	given := map[int64]bool{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range int64(25) {
				got, err := e.allocate([]idgen.Ranges{e.a, e.b}[i%2], e.tag, 1+n%5)
				mu.Lock()
				if err == nil {
					for v := got.first; v <= min(got.last, got.first+10_000); v++ {
						if given[v] {
							err = fmt.Errorf("the value %d was given twice", v)
							break
						}
						given[v] = true
					}
				}
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func valuesRise(e *env) error {
	if err := e.Create(e.ctx, e.a, e.tag, 77); err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	last := int64(76)
	for i, n := range []int64{1, 1000, 3, 1, 1 << 33, 10, 1 << 55, 1} {
		// The last values are not exact numbers in floating point.
		got, err := e.allocate([]idgen.Ranges{e.a, e.b}[i%2], e.tag, n)
		if err != nil {
			return err
		}
		if got.first <= last {
			return fmt.Errorf("Allocate %d gave values from %d, and %d was given before", i+1, got.first, last)
		}
		last = got.last
	}
	return nil
}

func unknownTagIsRefused(e *env) error {
	for range 2 {
		if first, _, err := e.a.Allocate(e.ctx, e.tag, 10); !errors.Is(err, idgen.ErrNoTag) {
			return fmt.Errorf("Allocate of a tag that nobody has made gave %d and %w, not ErrNoTag", first, err)
		}
	}
	return nil
}

func tagsAreSeparate(e *env) error {
	stem := e.tag + strings.Repeat("x", 128-len(e.tag)-1)
	names := []string{
		e.tag, e.tag + "a", e.tag + "A", e.tag + "/", e.tag + "%", e.tag + "_", e.tag + "\\", e.tag + "'", e.tag + "{a}", e.tag + " b",
		e.tag + "\u00e9", e.tag + "e\u0301", e.tag + "\U0001F600", e.tag + "\u00df", e.tag + "ss", stem + "1", stem + "2",
	}
	for i, name := range names {
		if _, _, err := e.a.Allocate(e.ctx, name, 1); !errors.Is(err, idgen.ErrNoTag) {
			return fmt.Errorf("tag %d is there before it was made: %w", i, err)
		}
		if err := e.Create(e.ctx, e.b, name, int64(i+1)*1_000_000_000); err != nil {
			return fmt.Errorf("Create of tag %d: %w", i, err)
		}
	}
	for i, name := range names {
		got, err := e.allocate(e.a, name, 5)
		if want := int64(i+1) * 1_000_000_000; err != nil || got.first != want {
			return fmt.Errorf("tag %d begins with %d (%w), and was made to begin with %d", i, got.first, err, want)
		}
	}
	return nil
}

func endedContextTakesNothing(e *env) error {
	if err := e.Create(e.ctx, e.a, e.tag, 1); err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	if first, _, err := e.a.Allocate(ended, e.tag, 1); err == nil {
		return fmt.Errorf("Allocate with a context that has ended gave %d", first)
	}
	_, err := e.allocate(e.a, e.tag, 1)
	return err
}

func endIsReported(e *env) error {
	if err := e.Create(e.ctx, e.a, e.tag, math.MaxInt64-1_000_000); err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	last := int64(0)
	for range 30 {
		got, err := e.allocate(e.b, e.tag, 100_000)
		if errors.Is(err, idgen.ErrSpent) {
			if _, _, again := e.a.Allocate(e.ctx, e.tag, 100_000); !errors.Is(again, idgen.ErrSpent) {
				return fmt.Errorf("behind the end Allocate got %w, not ErrSpent", again)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if got.first <= last {
			return fmt.Errorf("near the end Allocate gave %d, and %d before", got.first, last)
		}
		last = got.last
	}
	return errors.New("3 000 000 values came behind one of which 1 000 000 are left")
}

func createTwiceChangesNothing(e *env) error {
	if err := e.Create(e.ctx, e.a, e.tag, 1); err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	before, err := e.allocate(e.a, e.tag, 100)
	if err != nil {
		return err
	}
	if err := e.Create(e.ctx, e.b, e.tag, 1); err != nil {
		return fmt.Errorf("Create of a tag that is there: %w", err)
	}
	after, err := e.allocate(e.b, e.tag, 1)
	if err == nil && after.first <= before.last {
		err = fmt.Errorf("behind another Create Allocate gave %d, and %d was given before", after.first, before.last)
	}
	return err
}
