// Package backoff says when a client makes a call again: a random part of a wait that doubles ("full jitter"), on top of what the server asks
// for, within the caller's time.
package backoff

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff bounds the tries of one call. Zero fields have the defaults.
type Backoff struct {
	Max     int           // tries, the first included; default 4
	MinWait time.Duration // the most before the second try, doubled with each; default 100 ms
	MaxWait time.Duration // the longest wait; default 10 s
}

// Last says that no try follows the n-th, whatever came of it.
func (b Backoff) Last(ctx context.Context, n int) bool { return n >= or(b.Max, 4) || ctx.Err() != nil }

// Next says whether the n-th try is followed by another one, and after how long; after is what the server asks to wait.
func (b Backoff) Next(ctx context.Context, n int, after time.Duration) (wait time.Duration, again bool) {
	most := min(or(b.MaxWait, 10*time.Second), math.MaxInt64/4) // sums of two stay in range
	if b.Last(ctx, n) || after > most {
		return 0, false
	}
	wait = min(after+jitter(or(b.MinWait, 100*time.Millisecond), most, n), most)
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return 0, false
	}
	return wait, true
}

// jitter is a random part of the n-th wait: as many callers that failed at once come back spread out.
func jitter(first, most time.Duration, n int) time.Duration {
	wait := most
	if n <= 32 && first<<(n-1)>>(n-1) == first {
		wait = min(first<<(n-1), most)
	}
	return rand.N(wait + 1)
}

// Pause waits for d, or returns what ended ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// or returns v, or what stands for it where it is not set.
func or[N ~int | ~int64](v, otherwise N) N {
	if v > 0 {
		return v
	}
	return otherwise
}
