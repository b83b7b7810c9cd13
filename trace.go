package retrysafe

import (
	"context"
	"time"
)

// Trace receives what the engine does, for logs, metrics and spans. Any field may be nil. Functions
// are called on the caller's goroutine or the engine's, concurrently, and should not block.
type Trace struct {
	// Call is called when a call begins, and the function that it returns when the call ends. A
	// call is one of Do and DoTx, or goes from Begin to the end of the attempt. The context that
	// Call returns is that of the work.
	Call func(context.Context, CallInfo) (context.Context, func(CallDone))
	// Begun is called when the work of a call is about to run, with the context of the work: the
	// call has waited and claimed until then. It is called at most once for each call.
	Begun func(context.Context)
	// Origin returns a text that names the call of the context in a trace, such as a W3C
	// traceparent: visible ASCII, at most [MaxOrigin] bytes; any other text is not used. It is
	// called when the work has ended with an answer, stored with that answer, and passed to the
	// trace of each duplicate as [CallDone].Origin.
	Origin func(context.Context) string
	// Store is called before each store call, and the function that it returns after it. Calls for
	// one attempt have the context of its work.
	Store func(context.Context, StoreInfo) func(error)
	// Lost is called when the engine has ended an attempt's context, because its lease could not be
	// extended, MaxRun has passed or Shutdown has stopped waiting. Err says which.
	Lost func(context.Context, AttemptInfo)
	// InDoubt is called when an attempt has ended in doubt: it has to be resolved, or a retry runs
	// the work again. Cause says why.
	InDoubt func(context.Context, AttemptInfo)
	// Unconfirmed is called when the work is done and the store has not confirmed its answer in
	// time. The engine goes on trying.
	Unconfirmed func(context.Context, AttemptInfo)
	// Lapse is called when a claim whose reply was lost may have been applied and is not given
	// back, because too many claims wait for that or the store was away for an hour. If it was
	// applied, its lease expires, and the key is in doubt although nothing ran.
	Lapse func(context.Context, AttemptInfo)
}

// AttemptInfo describes an attempt that a [Trace] reports.
type AttemptInfo struct {
	Key Key
	// Attempt is the number of the attempt. It is zero for Lapse, since the store has not said it.
	Attempt int
	// Err says why the context of the attempt was ended: [ErrLeaseLost], [ErrMaxRun] or
	// [ErrClosed]. Only Lost has it.
	Err error
	// Cause is that of the record. Only InDoubt has it.
	Cause string
}

// CallInfo describes a call that begins.
type CallInfo struct {
	Key   Key
	Layer string

	hash func(key Key, layer string) string
}

// Hash returns the engine's keyed hash of the key, for logs; see [Engine.KeyHash]. It is empty if
// no engine has made i.
func (i *CallInfo) Hash() string {
	if i.hash == nil {
		return ""
	}
	return i.hash(i.Key, i.Layer)
}

// CallDone describes a call that has ended.
type CallDone struct {
	// Outcome is one of executed, failed, released, doubt, replayed, succeeded, duplicate,
	// not-kept, failed-before, in-progress, attempt-failed, mismatch, principal-changed, in-doubt,
	// not-issued, too-many-keys, lease-lost, unconfirmed, unavailable, closed, invalid, cancelled
	// and error.
	Outcome string
	// Attempt and Fence are those of the call's own attempt, or of the record that it found. They
	// are zero if it found none.
	Attempt int
	Fence   Fence
	// Origin is what Trace.Origin returned for the call that made the answer, if this call is a
	// duplicate of finished work. It is empty if that call had no trace.
	Origin string
	// Cause is that of the record, if the attempt ended in doubt or was released.
	Cause string
	// Took is the time since the call began, including the time that it waited.
	Took time.Duration
	Err  error
}

// Duplicate reports whether an earlier call for the key kept this one from running: its answer was
// replayed, or it was refused because of what the earlier call did or does.
func (d *CallDone) Duplicate() bool { return duplicates[d.Outcome] }

var duplicates = map[string]bool{
	"replayed": true, "succeeded": true, "duplicate": true, "not-kept": true, "failed-before": true, "in-progress": true, "attempt-failed": true,
	"in-doubt": true, "mismatch": true, "principal-changed": true,
}

// StoreInfo describes a store call.
type StoreInfo struct {
	// Op is acquire, extend, complete, release, lookup, issue, charge or sweep.
	Op string
}
