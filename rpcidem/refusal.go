package rpcidem

import (
	"context"
	"errors"
	"maps"
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

var refusals = map[string]Refusal{
	"KEY_MALFORMED":       {Code: InvalidArgument, Message: "the metadata of the idempotency key is there twice, or is no key (1 to 255 characters of printable ASCII); nothing was done"},
	"KEY_MISSING":         {Code: InvalidArgument, Message: "this method needs an idempotency key: send a random one for each action, and the same one in each retry; nothing was done"},
	"KEY_TOO_SHORT":       {Code: InvalidArgument, Message: "nothing but its key tells this call from those of strangers, and a short key can be guessed: send 128 random bits or more, or a credential; nothing was done"},
	"TENANT_MISSING":      {Code: Unauthenticated, Message: "the caller is not known; nothing was done"},
	"IN_PROGRESS":         {Code: Aborted, Message: "the first call with this key is still being worked on; ask again with the same key"},
	"ATTEMPT_FAILED":      {Code: Aborted, Message: "the attempt that this call waited for ended without an answer; this call did nothing, so send it again with the same key"},
	"LEASE_LOST":          {Code: Aborted, Message: "another attempt has taken this key over; send the call again with the same key to get its answer"},
	"ALREADY_DONE":        {Code: AlreadyExists, Message: "this was done before; look up what the first call made"},
	"ANSWER_NOT_KEPT":     {Code: AlreadyExists, Message: "this was done before, and its answer was not stored; look up what the first call made"},
	"OUTCOME_UNKNOWN":     {Code: FailedPrecondition, Message: "nobody knows whether the first call with this key took effect, and it is not run again; find out before you send it with a new key"},
	"PRINCIPAL_CHANGED":   {Code: FailedPrecondition, Message: "this key was used with another credential; nothing was done"},
	"RESOLVED_FAILED":     {Code: FailedPrecondition, Message: "this was refused for good"},
	"PAYLOAD_MISMATCH":    {Code: InvalidArgument, Message: "this key was used with another request; use a new key for a new request; nothing was done"},
	"REQUEST_UNREADABLE":  {Code: Internal, Message: "the request has no form that could be compared; nothing was done"},
	"STREAM_NOT_GUARDED":  {Code: InvalidArgument, Message: "streams are not guarded, so a key would promise what is not kept; leave it out, or use a unary method; nothing was done"},
	"TOO_MANY_KEYS":       {Code: ResourceExhausted, Message: "this caller has as many keys as it may have; nothing was done"},
	"TOO_MANY_REQUESTS":   {Code: ResourceExhausted, Message: "this caller asks too often; this call did nothing"},
	"STORE_UNAVAILABLE":   {Code: Unavailable, Message: "the record of this key cannot be reached; nothing was done"},
	"SHUTTING_DOWN":       {Code: Unavailable, Message: "this server is shutting down; nothing was done"},
	"ANSWER_NOT_READABLE": {Code: AlreadyExists, Message: "this was done before, and its answer is of another kind than this method gives; look up what the first call made"},
}

// Reasons returns all reasons of refusals, sorted.
func Reasons() []string { return slices.Sorted(maps.Keys(refusals)) }

// NewRefusal returns the refusal for a reason of [Reasons]. It panics on any other reason.
func NewRefusal(reason string, cause error) *Refusal {
	r, ok := refusals[reason]
	if !ok {
		panic("rpcidem: no refusal has the reason " + reason)
	}
	r.Reason, r.cause = reason, cause
	return &r
}

func (r *Refusal) after(d time.Duration) *Refusal {
	r.RetryAfter = max(d, 50*time.Millisecond)
	return r
}

// longestWait is the largest RetryAfter of a call whose first attempt is running.
const longestWait = 5 * time.Second

// refusalOf returns the refusal for an error of the engine.
func refusalOf(err error) *Refusal {
	after, _ := retrysafe.Retryable(err)
	for _, r := range []struct {
		err    error
		reason string
		after  time.Duration
	}{
		{retrysafe.ErrInProgress, "IN_PROGRESS", min(max(after, time.Millisecond), longestWait)},
		{retrysafe.ErrAttemptFailed, "ATTEMPT_FAILED", min(max(after, time.Millisecond), longestWait)},
		{retrysafe.ErrDuplicate, "ALREADY_DONE", 0},
		{retrysafe.ErrFingerprintMismatch, "PAYLOAD_MISMATCH", 0},
		{retrysafe.ErrPrincipalChanged, "PRINCIPAL_CHANGED", 0},
		{retrysafe.ErrAnswerNotKept, "ANSWER_NOT_KEPT", 0},
		{retrysafe.ErrFailedBefore, "RESOLVED_FAILED", 0},
		{retrysafe.ErrTooManyKeys, "TOO_MANY_KEYS", max(after, time.Second)},
		{retrysafe.ErrTooManyRequests, "TOO_MANY_REQUESTS", max(after, time.Second)},
		{retrysafe.ErrInDoubt, "OUTCOME_UNKNOWN", after},
		{retrysafe.ErrStepsChanged, "OUTCOME_UNKNOWN", 0},
		{retrysafe.ErrLeaseLost, "LEASE_LOST", time.Second},
		{retrysafe.ErrClosed, "SHUTTING_DOWN", time.Second},
		// The engine could not ask the store for the key, so nothing ran.
		{retrysafe.ErrUnavailable, "STORE_UNAVAILABLE", time.Second},
		{retrysafe.ErrInvalidKey, "STORE_UNAVAILABLE", time.Second},
		{retrysafe.ErrInTransaction, "STORE_UNAVAILABLE", time.Second},
		{retrysafe.ErrTooLate, "STORE_UNAVAILABLE", time.Second},
		{errors.ErrUnsupported, "STORE_UNAVAILABLE", time.Second},
		{context.Canceled, "STORE_UNAVAILABLE", time.Second},
		{context.DeadlineExceeded, "STORE_UNAVAILABLE", time.Second},
	} {
		if errors.Is(err, r.err) {
			refusal := NewRefusal(r.reason, err)
			if r.after > 0 {
				refusal = refusal.after(r.after)
			}
			return refusal
		}
	}
	// An error that is in no list says nothing about what was done.
	return NewRefusal("OUTCOME_UNKNOWN", err)
}
