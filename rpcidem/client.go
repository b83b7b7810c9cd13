package rpcidem

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// Retry configures how a client retries a call that has a key. The zero Retry has the defaults.
type Retry struct {
	// MaxAttempts is the largest number of tries of one call, the first included; default 4. With 1
	// there are no retries.
	MaxAttempts int
	// MinWait is the upper bound of the wait before the second try; it doubles with each further
	// try. The wait is random, from zero up to that ("full jitter"), on top of what the server asks
	// for. Default 100 ms.
	MinWait time.Duration
	// MaxWait is the longest wait before a try; default 10 s. If a refusal asks for more, the
	// client returns it.
	MaxWait time.Duration
}

// Failure describes how a try failed.
type Failure struct {
	Code Code
	// Reason is the reason of a refusal of this package; empty if the error is not one.
	Reason string
	// RetryAfter is the wait that the server asks for. Asked reports whether it asks.
	RetryAfter time.Duration
	Asked      bool
}

// Info notes the ErrorInfo of an error. Its reason counts if the domain is that of this package.
func (f *Failure) Info(domain, reason string) {
	if domain == Domain {
		f.Reason = reason
	}
}

// Delay notes the RetryInfo of an error. A negative delay does not count.
func (f *Failure) Delay(d time.Duration) {
	if d >= 0 {
		f.RetryAfter, f.Asked = d, true
	}
}

// Refused returns the reason of a refusal of this package. It returns false for any other error.
func (f *Failure) Refused() (reason string, ok bool) { return f.Reason, f.Reason != "" }

// final are the reasons after which a retry gets the same answer.
var final = map[string]bool{
	"ALREADY_DONE": true, "ANSWER_NOT_KEPT": true, "PRINCIPAL_CHANGED": true, "RESOLVED_FAILED": true, "PAYLOAD_MISMATCH": true,
}

// mayRetry reports whether the same call may be answered differently: the server was not reached or
// is shutting down, or it says when to retry.
func (f Failure) mayRetry() bool {
	switch {
	case f.Reason == "OUTCOME_UNKNOWN":
		return f.Asked // Policy.Reconcile will be called
	case final[f.Reason]:
		return false
	case f.Code == Unavailable:
		return true
	}
	return f.Asked && (f.Code == Aborted || f.Code == ResourceExhausted)
}

// Do calls try until the result is final. try returns nil for an answer and for a final failure.
// All tries must carry one key and be the same request. Do not use Do for a call without a key.
func (r *Retry) Do(ctx context.Context, try func() *Failure) {
	tries := backoff.Backoff{MaxAttempts: r.MaxAttempts, MinWait: r.MinWait, MaxWait: r.MaxWait}
	for n := 1; ; n++ {
		f := try()
		if f == nil || !f.mayRetry() {
			return
		}
		wait, again := tries.Next(ctx, n, f.RetryAfter)
		if !again || backoff.Pause(ctx, wait) != nil {
			return
		}
	}
}
