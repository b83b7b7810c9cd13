package retrysafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// callTrace reports the end of one call to the trace. It is nil if the trace has no Call function.
type callTrace struct {
	started time.Time
	end     func(CallDone)
	fence   Fence  // of the attempt, or of the record that was found
	origin  string // of the record that was found
	cause   string // of a doubt or a release
}

// traceCall reports to the trace that a call begins, and sets *ctx to the context that the trace
// returns. It returns nil if the trace has no Call function.
func (c *core) traceCall(ctx *context.Context, key storeapi.StoreKey) *callTrace {
	t := &c.trace
	if t.Call == nil {
		return nil
	}
	call := &callTrace{started: time.Now()}
	*ctx, call.end = t.Call(*ctx, CallInfo{Key: key.Key, Layer: key.Layer, hash: c.hashOf})
	return call
}

// begun reports that the work is about to run in ctx.
func (c *core) begun(ctx context.Context) {
	if c.trace.Begun != nil {
		c.trace.Begun(ctx)
	}
}

// origin returns what names the call of ctx in a trace; see [Trace].Origin.
func (c *core) origin(ctx context.Context) string {
	if c.trace.Origin == nil {
		return ""
	}
	return c.trace.Origin(ctx)
}

// found removes the origin from the record that the call has found, and remembers it for the trace.
func (t *callTrace) found(rec *Record) {
	origin := takeOrigin(&rec.Answer)
	if t != nil {
		t.fence, t.origin = rec.Fence, origin
	}
}

// won sets the fence of the call's own attempt.
func (t *callTrace) won(fence Fence) {
	if t != nil {
		t.fence, t.origin = fence, ""
	}
}

func (t *callTrace) done(outcome string, attempt int, err error) {
	if t == nil {
		return
	}
	t.end(CallDone{Outcome: outcome, Attempt: attempt, Fence: t.fence, Origin: t.origin, Cause: t.cause, Took: time.Since(t.started), Err: err})
}

// outcome returns the trace's name for the result of a call that ran nothing.
func outcome(err error) string {
	if err == nil {
		return "replayed"
	}
	return outcomeOfError(err)
}
