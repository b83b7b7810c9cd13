package otelidem

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/lock"
)

// LockTrace returns the trace for the options of a locker: a span for each request of a lock, from
// when it is asked for until it is held or refused, and metrics of locks that are held and that
// end. The name of a lock is not shown.
func (t *Telemetry) LockTrace() *lock.Trace {
	return &lock.Trace{
		Lock: func(ctx context.Context) func(lock.AcquireDone) {
			begun := time.Now()
			ctx, span := t.tracer.Start(ctx, "retrysafe lock")
			return func(d lock.AcquireDone) {
				outcome := lockOutcome(d.Err)
				t.lockWait.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(attrOutcome.String(outcome)))
				if d.Err == nil {
					t.locksLive.Add(ctx, 1)
				}
				span.SetAttributes(attrOutcome.String(outcome), attrFence.Int64(int64(d.Fence))) //nolint:gosec // below 2^53
				if outcome == "error" {
					markFailed(span, outcome)
				}
				span.End(trace.WithTimestamp(time.Now()))
			}
		},
		Ended: func(ctx context.Context, d lock.HoldDone) {
			t.locksLive.Add(ctx, -1)
			t.lockEnds.Add(ctx, 1, metric.WithAttributes(attrCause.String(lockCause(d.Err))))
		},
	}
}

func lockOutcome(err error) string {
	switch {
	case err == nil:
		return "locked"
	case errors.Is(err, lock.ErrHeld):
		return "held"
	}
	return "error"
}

func lockCause(err error) string {
	for _, c := range []struct {
		err  error
		word string
	}{{lock.ErrReleased, "released"}, {lock.ErrLost, "lost"}, {lock.ErrMaxHold, "bound"}, {lock.ErrClosed, "closed"}} {
		if errors.Is(err, c.err) {
			return c.word
		}
	}
	return "other"
}
