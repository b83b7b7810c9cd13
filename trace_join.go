package retrysafe

import (
	"context"
	"slices"
)

// JoinTraces returns a trace that calls the functions of all the given ones, in their order; nil
// traces count for nothing. The function that ends a call or a store call is called in the reverse
// order. Origin returns the first text that is not empty.
func JoinTraces(traces ...*Trace) *Trace {
	traces = slices.DeleteFunc(slices.Clone(traces), func(t *Trace) bool { return t == nil })
	all := new(Trace)
	if calls := of(traces, func(t *Trace) (func(context.Context, CallInfo) (context.Context, func(CallDone)), bool) {
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
	if stores := of(traces, func(t *Trace) (func(context.Context, StoreInfo) func(error), bool) { return t.Store, t.Store != nil }); stores != nil {
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
	if each := of(traces, func(t *Trace) (func(context.Context), bool) { return t.Begun, t.Begun != nil }); each != nil {
		all.Begun = func(ctx context.Context) {
			for _, f := range each {
				f(ctx)
			}
		}
	}
	if each := of(traces, func(t *Trace) (func(context.Context) string, bool) { return t.Origin, t.Origin != nil }); each != nil {
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
	each := of(traces, func(t *Trace) (func(context.Context, AttemptInfo), bool) { return field(t), field(t) != nil })
	if each == nil {
		return nil
	}
	return func(ctx context.Context, info AttemptInfo) {
		for _, f := range each {
			f(ctx, info)
		}
	}
}

// of returns what field finds in the traces.
func of[F any](traces []*Trace, field func(*Trace) (F, bool)) (found []F) {
	for _, t := range traces {
		if f, ok := field(t); ok {
			found = append(found, f)
		}
	}
	return found
}
