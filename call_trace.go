package retrysafe

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// callTrace reports the end of one call to the trace. It is nil if the trace has no Call function.
type callTrace struct {
	begun time.Time
	end   func(CallDone)
}

// traceCall reports to the trace that a call begins, and sets *ctx to the context that the trace
// returns. It returns nil if the trace has no Call function.
func (rt *runtime) traceCall(ctx *context.Context, key storeapi.StoreKey) *callTrace {
	t := &rt.trace
	if t.Call == nil {
		return nil
	}
	call := &callTrace{begun: time.Now()}
	*ctx, call.end = t.Call(*ctx, CallInfo{Key: key.Key, Layer: key.Layer, hash: func() string { return rt.keyHash(key) }})
	return call
}

func (t *callTrace) done(outcome string, attempt int, err error) {
	if t == nil {
		return
	}
	t.end(CallDone{Outcome: outcome, Attempt: attempt, Took: time.Since(t.begun), Err: err})
}

var outcomes = []struct {
	err  error
	name string
}{
	{ErrInDoubt, "in-doubt"},
	{ErrLeaseLost, "lease-lost"},
	{ErrUnconfirmed, "unconfirmed"},
	{ErrInProgress, "in-progress"},
	{ErrAttemptFailed, "attempt-failed"},
	{ErrFingerprintMismatch, "mismatch"},
	{ErrPrincipalChanged, "principal-changed"},
	{ErrDuplicate, "duplicate"},
	{ErrAnswerNotKept, "not-kept"},
	{ErrFailedBefore, "failed-before"},
	{ErrNotIssued, "not-issued"},
	{ErrTooManyKeys, "too-many-keys"},
	{ErrTooManyRequests, "too-many-requests"},
	{ErrInvalidKey, "invalid"},
	{ErrUnavailable, "unavailable"},
	{ErrClosed, "closed"},
	{ErrInTransaction, "invalid"},
	{context.Canceled, "cancelled"},
	{context.DeadlineExceeded, "cancelled"},
}

// outcome returns the trace's name for the result of a call that ran nothing.
func outcome(err error) string {
	if err == nil {
		return "replayed"
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.name
		}
	}
	return "error"
}
