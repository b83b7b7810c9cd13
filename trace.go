package retrysafe

import (
	"context"
	"errors"
	"time"
)

// Trace receives what the engine does, for logs, metrics and spans. Any field may be nil. Functions
// are called on the caller's goroutine or the engine's, concurrently, and should not block.
type Trace struct {
	// Call is called when a call begins, and the function that it returns when the call ends. A
	// call is one of Do and DoTx, or goes from Begin to the end of the attempt. The context that
	// Call returns is that of the work.
	Call func(context.Context, CallInfo) (context.Context, func(CallDone))
	// Store is called before each store call, and the function that it returns after it.
	Store func(context.Context, StoreInfo) func(error)
	// Lost is called when the engine has ended an attempt's context, because its lease could not be
	// extended, MaxRun has passed or Shutdown has stopped waiting. cause says which.
	Lost func(ctx context.Context, key Key, attempt int, cause error)
	// Doubt is called when an attempt has ended in doubt: it has to be resolved, or a retry runs
	// the work again.
	Doubt func(ctx context.Context, key Key, attempt int, cause string)
	// Unconfirmed is called when the work is done and the store has not confirmed its answer in
	// time. The engine goes on trying.
	Unconfirmed func(ctx context.Context, key Key, attempt int)
	// Lapse is called when a claim of key whose reply was lost may have been applied and is not
	// given back, because too many claims wait for that or the store was away for an hour. If it
	// was applied, its lease expires, and the key is in doubt although nothing ran.
	Lapse func(ctx context.Context, key Key)
}

// CallInfo describes a call that begins.
type CallInfo struct {
	Key   Key
	Layer string

	hash func() string
}

// Hash returns the engine's keyed hash of the key, for logs; see [Engine.KeyHash]. It is empty if
// no engine has made i.
func (i *CallInfo) Hash() string {
	if i.hash == nil {
		return ""
	}
	return i.hash()
}

// CallDone describes a call that has ended.
type CallDone struct {
	// Outcome is one of executed, failed, released, doubt, replayed, succeeded, duplicate,
	// not-kept, failed-before, in-progress, attempt-failed, mismatch, principal-changed, in-doubt,
	// not-issued, too-many-keys, lease-lost, unconfirmed, unavailable, closed, invalid, cancelled
	// and error.
	Outcome string
	Attempt int
	// Took is the time since the call began, including the time that it waited.
	Took time.Duration
	Err  error
}

// StoreInfo describes a store call.
type StoreInfo struct {
	// Op is acquire, extend, complete, release, lookup, issue, charge or sweep.
	Op string
}

// store reports one store call. The function that it returns is called at most once.
func (t *Trace) store(ctx context.Context, op string) func(error) {
	if t.Store == nil {
		return func(error) {}
	}
	done := t.Store(ctx, StoreInfo{Op: op})
	return func(err error) {
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil // the engine does without what the store cannot do: that is no failure
		}
		done(err)
	}
}
