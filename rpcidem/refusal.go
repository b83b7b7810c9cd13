package rpcidem

import (
	"errors"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Domain is the domain of the reasons of refusals (google.rpc.ErrorInfo).
const Domain = "retrysafe"

// Refusal is an answer of this package itself: the method did not run for this call. It never
// contains a key, a payload or a cause.
type Refusal struct {
	Code Code
	// Reason is stable, so programs can rely on it. It is the code of the same answer over HTTP, in
	// capitals. docs/problems has a page for each.
	Reason string
	// Message says what happened and what to do.
	Message string
	// RetryAfter is how long to wait before a retry. Zero means that retrying this call is useless.
	RetryAfter time.Duration

	cause error
}

// Error returns the reason and the message.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// Unwrap returns the cause of the refusal, or nil. The cause is not for callers.
func (r *Refusal) Unwrap() error { return r.cause }

// Reasons returns all reasons of refusals, sorted.
func Reasons() []string {
	var reasons []string
	for _, c := range retrysafe.Codes() {
		if c.GRPCCode() != 0 {
			reasons = append(reasons, c.Reason())
		}
	}
	slices.Sort(reasons)
	return reasons
}

// NewRefusal returns the refusal for a reason of [Reasons]. It panics on any other reason.
func NewRefusal(reason string, cause error) *Refusal {
	c, ok := retrysafe.ParseCode(reason)
	if !ok || c.GRPCCode() == 0 || reason != c.Reason() {
		panic("rpcidem: no refusal has the reason " + reason)
	}
	return refusalFor(c, cause)
}

// refusalFor returns the refusal of a code.
func refusalFor(c retrysafe.Code, cause error) *Refusal {
	return &Refusal{Code: Code(c.GRPCCode()), Reason: c.Reason(), Message: c.Message(), cause: cause}
}

func (r *Refusal) withRetryAfter(d time.Duration) *Refusal {
	r.RetryAfter = max(d, 50*time.Millisecond)
	return r
}

// longestWait is the largest RetryAfter of a call whose first attempt is running.
const longestWait = 5 * time.Second

// refusalOf returns the refusal for an error of the engine.
func refusalOf(err error) *Refusal {
	code := retrysafe.CodeOf(err)
	if code.GRPCCode() == 0 {
		// keys over RPC are not issued, so none is refused for that
		code = retrysafe.CodeOutcomeUnknown
	}
	r := refusalFor(code, err)
	after, _ := retrysafe.Retryable(err)
	switch code {
	case retrysafe.CodeInProgress, retrysafe.CodeAttemptFailed:
		return r.withRetryAfter(min(after, longestWait))
	case retrysafe.CodeTooManyKeys, retrysafe.CodeTooManyRequests:
		return r.withRetryAfter(max(after, time.Second))
	case retrysafe.CodeOutcomeUnknown:
		if after > 0 && errors.Is(err, retrysafe.ErrInDoubt) {
			return r.withRetryAfter(after)
		}
		return r
	}
	if code.Retryable() {
		return r.withRetryAfter(time.Second)
	}
	return r
}
