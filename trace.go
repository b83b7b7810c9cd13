package retrysafe

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
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

// JoinTraces returns a trace that calls the functions of all the given ones, in their order; nil
// traces count for nothing. The function that ends a call or a store call is called in the reverse
// order. Origin returns the first text that is not empty.
func JoinTraces(traces ...*Trace) *Trace {
	traces = slices.DeleteFunc(slices.Clone(traces), func(t *Trace) bool { return t == nil })
	all := new(Trace)
	if calls := collectFields(traces, func(t *Trace) (func(context.Context, CallInfo) (context.Context, func(CallDone)), bool) {
		return t.Call, t.Call != nil
	}); calls != nil {
		all.Call = func(ctx context.Context, info CallInfo) (context.Context, func(CallDone)) {
			ends := make([]func(CallDone), len(calls))
			for i, call := range calls {
				ctx, ends[i] = call(ctx, info)
			}
			return ctx, func(d CallDone) {
				for _, end := range slices.Backward(ends) {
					end(d)
				}
			}
		}
	}
	if stores := collectFields(traces, func(t *Trace) (func(context.Context, StoreInfo) func(error), bool) { return t.Store, t.Store != nil }); stores != nil {
		all.Store = func(ctx context.Context, info StoreInfo) func(error) {
			ends := make([]func(error), len(stores))
			for i, store := range stores {
				ends[i] = store(ctx, info)
			}
			return func(err error) {
				for _, end := range slices.Backward(ends) {
					end(err)
				}
			}
		}
	}
	joinEvents(all, traces)
	return all
}

// joinEvents sets the functions of all that report a single event.
func joinEvents(all *Trace, traces []*Trace) {
	if each := collectFields(traces, func(t *Trace) (func(context.Context), bool) { return t.Begun, t.Begun != nil }); each != nil {
		all.Begun = func(ctx context.Context) {
			for _, f := range each {
				f(ctx)
			}
		}
	}
	if each := collectFields(traces, func(t *Trace) (func(context.Context) string, bool) { return t.Origin, t.Origin != nil }); each != nil {
		all.Origin = func(ctx context.Context) (origin string) {
			for _, f := range each {
				if origin = f(ctx); origin != "" {
					break
				}
			}
			return origin
		}
	}
	all.Lost = joinAttempts(traces, func(t *Trace) func(context.Context, AttemptInfo) { return t.Lost })
	all.InDoubt = joinAttempts(traces, func(t *Trace) func(context.Context, AttemptInfo) { return t.InDoubt })
	all.Unconfirmed = joinAttempts(traces, func(t *Trace) func(context.Context, AttemptInfo) { return t.Unconfirmed })
	all.Lapse = joinAttempts(traces, func(t *Trace) func(context.Context, AttemptInfo) { return t.Lapse })
}

// joinAttempts returns a function that calls what field finds in the traces, or nil if none has it.
func joinAttempts(traces []*Trace, field func(*Trace) func(context.Context, AttemptInfo)) func(context.Context, AttemptInfo) {
	each := collectFields(traces, func(t *Trace) (func(context.Context, AttemptInfo), bool) { return field(t), field(t) != nil })
	if each == nil {
		return nil
	}
	return func(ctx context.Context, info AttemptInfo) {
		for _, f := range each {
			f(ctx, info)
		}
	}
}

// collectFields returns what field finds in the traces.
func collectFields[F any](traces []*Trace, field func(*Trace) (F, bool)) (found []F) {
	for _, t := range traces {
		if f, ok := field(t); ok {
			found = append(found, f)
		}
	}
	return found
}

// MaxOrigin is the longest text that [Trace].Origin may return, in bytes. A traceparent has 55.
const MaxOrigin = 128

// originMark separates the codec of a stored answer from the text of [Trace].Origin.
const originMark = ";span="

// maxTraced is the longest codec with an origin, in bytes. Stores keep 255, and a store that wraps
// another may put a word of its own before it.
const maxTraced = 240

// withOrigin returns the answer with the origin after its codec. An answer that names no codec
// gets none: it says only that the work was done, and stores keep it in fewer bytes.
func withOrigin(a Answer, origin string) Answer {
	if origin == "" || a.Codec == "" || len(a.Codec)+len(originMark)+len(origin) > maxTraced || !isTraceable(origin) {
		return a
	}
	a.Codec += originMark + origin
	return a
}

// takeOrigin removes the origin from a stored answer, and returns it.
func takeOrigin(a *Answer) (origin string) {
	at := strings.LastIndex(a.Codec, originMark)
	if at < 0 {
		return ""
	}
	a.Codec, origin = a.Codec[:at], a.Codec[at+len(originMark):]
	return origin
}

func isTraceable(s string) bool {
	if len(s) > MaxOrigin {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ';' {
			return false
		}
	}
	return true
}

// callTrace reports the end of one call to the trace. It is nil if the trace has no Call function.
type callTrace struct {
	started time.Time
	endCall func(CallDone)
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
	*ctx, call.endCall = t.Call(*ctx, CallInfo{Key: key.Key, Layer: key.Layer, hash: c.hashOf})
	return call
}

// noteRecord removes the origin from the record that the call has found, and remembers it for the
// trace.
func (t *callTrace) noteRecord(rec *Record) {
	origin := takeOrigin(&rec.Answer)
	if t != nil {
		t.fence, t.origin = rec.Fence, origin
	}
}

func (t *callTrace) reportEnd(outcome string, attempt int, err error) {
	if t == nil {
		return
	}
	t.endCall(CallDone{Outcome: outcome, Attempt: attempt, Fence: t.fence, Origin: t.origin, Cause: t.cause, Took: time.Since(t.started), Err: err})
}

// outcomeName returns the trace's name for the result of a call that ran nothing.
func outcomeName(err error) string {
	if err == nil {
		return "replayed"
	}
	return errorOutcomeName(err)
}
