package otelidem

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe"
)

// call is a guarded call that has not ended.
type call struct {
	layer      string
	span       trace.Span
	info       retrysafe.CallInfo
	storeCalls atomic.Int64 // calls of the store
	running    atomic.Bool  // its work runs
}

type callKey struct{ *Telemetry }

func (t *Telemetry) callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{t}).(*call)
	return c
}

// Trace returns the trace for the options of an engine. With [retrysafe.JoinTraces] an engine has
// it together with others.
func (t *Telemetry) Trace() *retrysafe.Trace {
	return &retrysafe.Trace{
		Call:        t.startCall,
		Begun:       t.recordBegun,
		Origin:      traceparentOf,
		Store:       t.timeStoreCall,
		Lost:        func(ctx context.Context, a retrysafe.AttemptInfo) { t.countLost(ctx, a.Err) },
		InDoubt:     func(ctx context.Context, a retrysafe.AttemptInfo) { t.countDoubt(ctx, a.Cause) },
		Unconfirmed: func(ctx context.Context, _ retrysafe.AttemptInfo) { t.unconfirmed.Add(ctx, 1) },
		Lapse:       func(ctx context.Context, _ retrysafe.AttemptInfo) { t.lapsed.Add(ctx, 1) },
	}
}

// startCall starts the span of a call.
func (t *Telemetry) startCall(ctx context.Context, info retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
	c := &call{layer: info.Layer, info: info}
	ctx, c.span = t.tracer.Start(ctx, "retrysafe "+info.Layer, trace.WithAttributes(
		attrLayer.String(info.Layer), attrOperation.String(info.Key.Operation)))
	if c.span.IsRecording() {
		c.span.SetAttributes(attrKeyHash.String(info.Hash()))
	}
	ctx = context.WithValue(ctx, callKey{t}, c)
	return ctx, func(d retrysafe.CallDone) { t.recordEnd(ctx, c, &d) }
}

// recordBegun reports that the call has waited and claimed, and that its work runs now.
func (t *Telemetry) recordBegun(ctx context.Context) {
	if c := t.callOf(ctx); c != nil && c.running.CompareAndSwap(false, true) {
		c.span.AddEvent("retrysafe.begun")
		t.live.Add(ctx, 1, metric.WithAttributes(attrLayer.String(c.layer)))
	}
}

func (t *Telemetry) recordEnd(ctx context.Context, c *call, d *retrysafe.CallDone) {
	layer := attrLayer.String(c.layer)
	how := metric.WithAttributeSet(attribute.NewSet(layer, attrOutcome.String(d.Outcome)))
	t.calls.Add(ctx, 1, how)
	t.callTime.Record(ctx, d.Took.Seconds(), how)
	t.perCall.Record(ctx, c.storeCalls.Load(), metric.WithAttributes(layer))
	if d.Duplicate() {
		t.duplicates.Add(ctx, 1, how)
	}
	if c.running.CompareAndSwap(true, false) {
		t.live.Add(ctx, -1, metric.WithAttributes(layer))
	}
	defer c.span.End()
	if !c.span.IsRecording() {
		return
	}
	c.span.SetAttributes(
		attrOutcome.String(d.Outcome), attrAttempt.Int(d.Attempt), attrFence.Int64(int64(d.Fence)), //nolint:gosec // below 2^53
		attrDuplicate.Bool(d.Duplicate()), attrCalls.Int64(c.storeCalls.Load()),
	)
	if d.Cause != "" {
		c.span.SetAttributes(attrCause.String(d.Cause))
	}
	if sc := spanOf(d.Origin); sc.IsValid() {
		c.span.AddLink(trace.Link{SpanContext: sc})
	}
	if operatorOutcomes[d.Outcome] {
		markFailed(c.span, d.Outcome)
	}
}

// operatorOutcomes are the outcomes that an operator should know of. The others are answers.
var operatorOutcomes = map[string]bool{
	"doubt": true, "in-doubt": true, "lease-lost": true, "unconfirmed": true, "unavailable": true, "attempt-failed": true, "error": true,
}

// timeStoreCall counts and times a call of the store.
func (t *Telemetry) timeStoreCall(ctx context.Context, info retrysafe.StoreInfo) func(error) {
	if c := t.callOf(ctx); c != nil {
		c.storeCalls.Add(1)
	}
	begun := time.Now()
	return func(err error) {
		op := metric.WithAttributes(attrOp.String(info.Op))
		t.storeTime.Record(ctx, time.Since(begun).Seconds(), op)
		if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
			t.storeErrors.Add(ctx, 1, op)
		}
	}
}

func (t *Telemetry) countLost(ctx context.Context, cause error) {
	word := "lease-lost"
	switch {
	case errors.Is(cause, retrysafe.ErrMaxRun):
		word = "bound"
	case errors.Is(cause, retrysafe.ErrClosed):
		word = "closed"
	}
	t.lost.Add(ctx, 1, metric.WithAttributes(attrCause.String(word)))
	trace.SpanFromContext(ctx).AddEvent("retrysafe.lost", trace.WithAttributes(attrCause.String(word)))
}

func (t *Telemetry) countDoubt(ctx context.Context, cause string) {
	attrs := []attribute.KeyValue{attrCause.String(cause)}
	if c := t.callOf(ctx); c != nil {
		attrs = append(attrs, attrLayer.String(c.layer))
	}
	t.doubts.Add(ctx, 1, metric.WithAttributes(attrs...))
}

// traceparentOf returns the traceparent of the span of ctx. A span that is not sampled is never
// seen, so nothing links to it.
func traceparentOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	h := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, h)
	return h["traceparent"]
}

// spanOf returns the span that a traceparent names. It is not valid if there is none.
func spanOf(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	h := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), h))
}
