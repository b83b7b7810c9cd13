package backoff_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNext: the number of tries, the longest wait, and that no wait exceeds the caller's deadline.
func TestNext(t *testing.T) {
	t.Parallel()
	b := backoff.Backoff{MaxAttempts: 40, MinWait: time.Millisecond, MaxWait: time.Second}
	for n := 1; n < 40; n++ {
		wait, again := b.Next(t.Context(), n, 10*time.Millisecond)
		most := min(10*time.Millisecond+time.Millisecond<<min(n-1, 20), time.Second)
		assert.True(t, again && wait >= 10*time.Millisecond && wait <= most, "try %d is followed by another after %v (at most %v)", n, wait, most)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	soon, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	for name, again := range map[string]func() (time.Duration, bool){
		"the last one":        func() (time.Duration, bool) { return b.Next(t.Context(), 40, 0) },
		"the fourth":          func() (time.Duration, bool) { return backoff.Backoff{}.Next(t.Context(), 4, 0) },
		"longer than MaxWait": func() (time.Duration, bool) { return b.Next(t.Context(), 1, 2*time.Second) },
		"a caller that left":  func() (time.Duration, bool) { return b.Next(ended, 1, 0) },
		"a caller that leaves": func() (time.Duration, bool) {
			return backoff.Backoff{MaxWait: 3 * time.Hour}.Next(soon, 1, 2*time.Hour)
		},
	} {
		_, more := again()
		assert.True(t, !more, "%s is followed by another try", name)
	}
	_, more := backoff.Backoff{MinWait: math.MaxInt64, MaxWait: math.MaxInt64}.Next(t.Context(), 3, math.MaxInt64/8)
	assert.True(t, more, "the longest waits")
	assert.ErrorIs(t, backoff.Pause(ended, time.Hour), context.Canceled, "a wait ends with its caller")
}
