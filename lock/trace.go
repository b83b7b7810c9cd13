package lock

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Trace receives what a [Locker] does. Any field may be nil. Functions are called concurrently, and
// should not block. They never get the name of a lock, which may say who a customer is.
type Trace struct {
	// Lock is called when Lock, TryLock or With asks for a lock, and the function that it returns
	// when it has the lock, or Err says why not.
	Lock func(context.Context) func(AcquireDone)
	// Ended is called when a lock has ended. A lock that is held several times in one context ends
	// once. The context has the values of that which asked for the lock, and does not end with it.
	Ended func(context.Context, HoldDone)
}

// AcquireDone describes a request for a lock that has its answer.
type AcquireDone struct {
	// Fence is zero if the lock was not acquired.
	Fence retrysafe.Fence
	Err   error
}

// HoldDone describes a lock that has ended.
type HoldDone struct {
	// Took is how long the lock was held.
	Took time.Duration
	// Err is the cause: [ErrReleased], [ErrLost], [ErrMaxHold] or [ErrClosed].
	Err error
}

// traceRequest reports that a lock is asked for.
func (l *Locker) traceRequest(ctx context.Context) func(*Lock, error) {
	if l.o.Trace == nil || l.o.Trace.Lock == nil {
		return func(*Lock, error) {}
	}
	done := l.o.Trace.Lock(ctx)
	return func(held *Lock, err error) {
		var fence retrysafe.Fence
		if held != nil {
			fence = held.Fence()
		}
		done(AcquireDone{Fence: fence, Err: err})
	}
}

// traceEnd reports that a hold has ended. The caller does not hold its mutex.
func (h *hold) traceEnd(cause error) {
	if t := h.locker.o.Trace; t != nil && t.Ended != nil {
		t.Ended(h.traceCtx, HoldDone{Took: time.Since(h.requestedAt), Err: cause})
	}
}
