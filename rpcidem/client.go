package rpcidem

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// Retry says how a client repeats a call that has a key. The zero Retry has the defaults.
type Retry struct {
	// Max is the most tries of one call, the first included; default 4, and 1 repeats nothing.
	Max int
	// MinWait is the most that is waited before the second try; it doubles with each. What is
	// waited is random, from zero up to that ("full jitter"), on top of what the server asks for.
	// Default 100 ms.
	MinWait time.Duration
	// MaxWait is the longest wait before a try; default 10 s. A refusal that asks for more is
	// returned.
	MaxWait time.Duration
}

// Failure is how a try failed.
type Failure struct {
	Code Code
	// Reason is that of a refusal of this package; empty: it came from elsewhere.
	Reason string
	// RetryAfter is what the server asks to wait; Told says that it asks.
	RetryAfter time.Duration
	Told       bool
}

// final are the reasons whose repeat is told the same.
var final = map[string]bool{
	"ALREADY_DONE": true, "ANSWER_NOT_KEPT": true, "PRINCIPAL_CHANGED": true, "RESOLVED_FAILED": true, "PAYLOAD_MISMATCH": true,
}

// again tells whether the same call may end otherwise: the server was not reached or is going away,
// or it says when to come again.
func (f Failure) again() bool {
	switch {
	case f.Reason == "OUTCOME_UNKNOWN":
		return f.Told // Policy.Reconcile will be asked
	case final[f.Reason]:
		return false
	case f.Code == Unavailable:
		return true
	}
	return f.Told && (f.Code == Aborted || f.Code == ResourceExhausted)
}

// Do makes tries until one is final: try returns nil for an answer and for a failure that is. All
// tries must carry one key, and be the same request. A call without a key is not for Do.
func (r *Retry) Do(ctx context.Context, try func() *Failure) {
	tries := backoff.Backoff{Max: r.Max, MinWait: r.MinWait, MaxWait: r.MaxWait}
	for n := 1; ; n++ {
		f := try()
		if f == nil || !f.again() {
			return
		}
		wait, again := tries.Next(ctx, n, f.RetryAfter)
		if !again || backoff.Pause(ctx, wait) != nil {
			return
		}
	}
}
