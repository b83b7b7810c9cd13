// Package backoff spaces out the tries of a call that can be repeated: each wait is a random part
// of a limit that doubles ("full jitter"), added to what the server asks for, and within the
// caller's deadline. The clients in httpidem and rpcidem use it between tries, and the adapters of
// brokers use it while they reconnect.
//
// The scheme is from "Exponential Backoff And Jitter" (Marc Brooker, AWS Architecture Blog, 2015).
package backoff

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff limits the tries of one call. A field that is zero or negative has its default, so the
// zero Backoff is ready to use. It is safe for concurrent use.
type Backoff struct {
	// MaxAttempts is the number of tries, including the first; default 4. math.MaxInt means no
	// limit.
	MaxAttempts int
	// MinWait limits the wait before the second try; the limit doubles with each further try.
	// Default 100 ms.
	MinWait time.Duration
	// MaxWait limits every wait; default 10 s.
	MaxWait time.Duration
}

// Last reports whether no try follows the n-th, whatever its outcome: MaxAttempts is reached, or
// ctx has ended.
func (b Backoff) Last(ctx context.Context, n int) bool {
	return n >= or(b.MaxAttempts, 4) || ctx.Err() != nil
}

// Next reports whether another try follows the n-th, and returns how long to wait before it. The
// first try is number 1. after is the least wait that the server asked for (Retry-After), or 0.
//
// No try follows the last one. None follows if the server asks for more than MaxWait, or if the
// next try would begin after ctx's deadline.
func (b Backoff) Next(ctx context.Context, n int, after time.Duration) (wait time.Duration, again bool) {
	most := min(or(b.MaxWait, 10*time.Second), math.MaxInt64/4) // the sum of two does not overflow
	if b.Last(ctx, n) || after > most {
		return 0, false
	}
	wait = min(after+jitter(or(b.MinWait, 100*time.Millisecond), most, n), most)
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return 0, false
	}
	return wait, true
}

// jitter returns a random part of the n-th wait, so that callers that failed together do not retry
// together.
func jitter(first, most time.Duration, n int) time.Duration {
	wait := most
	if n <= 32 && first<<(n-1)>>(n-1) == first {
		wait = min(first<<(n-1), most)
	}
	return rand.N(wait + 1)
}

// Pause waits for d. It returns early with context.Cause(ctx) when ctx ends.
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

// or returns v, or its default if v is not set.
func or[N ~int | ~int64](v, otherwise N) N {
	if v > 0 {
		return v
	}
	return otherwise
}
