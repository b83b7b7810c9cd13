package retrysafe

import (
	"context"
	"errors"
	"time"
)

// Trace is told what the engine does, for logs, metrics and spans. Any field may be nil. Functions
// are called on the caller's goroutine or the engine's, concurrently, and should not block.
type Trace struct {
	// Call stands around Do, DoTx, and Begin to the attempt's end. The context that it returns is
	// that of the work.
	Call func(context.Context, CallInfo) (context.Context, func(CallDone))
	// Store stands around each store call.
	Store func(context.Context, StoreInfo) func(error)
	// Lost: the attempt's context has ended, since its lease could not be extended or MaxRun has
	// passed.
	Lost func(ctx context.Context, key Key, attempt int, cause error)
	// Doubt: an attempt ended in doubt; somebody has to resolve it, or a retry re-executes.
	Doubt func(ctx context.Context, key Key, attempt int, cause string)
	// Unconfirmed: the work is done and the store has not confirmed its answer in time; repeats go
	// on.
	Unconfirmed func(ctx context.Context, key Key, attempt int)
	// Lapse: a claim of key whose reply was lost may have been applied and is not given back, since
	// too many wait for that or the store was away for an hour. If it was applied, its lease
	// lapses, and the key is in doubt although nothing ran.
	Lapse func(ctx context.Context, key Key)
}

// CallInfo describes a call that begins.
type CallInfo struct {
	Key   Key
	Layer string

	hash func() string
}

// Hash is the engine's keyed hash of the key, for logs; see [Engine.KeyHash]. It is empty where no
// engine has made i.
func (i *CallInfo) Hash() string {
	if i.hash == nil {
		return ""
	}
	return i.hash()
}

// CallDone describes a call that has ended.
type CallDone struct {
	// Outcome is one of executed failed released doubt replayed succeeded duplicate not-kept
	// failed-before in-progress attempt-failed mismatch principal-changed in-doubt not-issued
	// too-many-keys lease-lost unconfirmed unavailable closed invalid cancelled error.
	Outcome string
	Attempt int
	// Took is the time since the call began, waiting included.
	Took time.Duration
	Err  error
}

// StoreInfo describes a store call.
type StoreInfo struct {
	// Op is acquire, extend, complete, release, lookup, issue, charge or sweep.
	Op string
}

// store reports one store call; done may be called once.
func (t *Trace) store(ctx context.Context, op string) func(error) {
	if t.Store == nil {
		return func(error) {}
	}
	done := t.Store(ctx, StoreInfo{Op: op})
	return func(err error) {
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil // the store cannot, and the engine does without: that is no failure
		}
		done(err)
	}
}
