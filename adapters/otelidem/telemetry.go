package otelidem

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/version"
)

const module = "github.com/retrysafe/retrysafe/adapters/otelidem"

// Telemetry reports to OpenTelemetry. One is enough for a process: its parts can be given to any
// number of engines, outboxes, consumers, lockers and clients. It is safe for concurrent use, and
// has no goroutines and no end.
type Telemetry struct {
	tracer     trace.Tracer
	meter      metric.Meter
	propagator propagation.TextMapPropagator
	messaging  bool
	*instruments
}

// New returns a telemetry; o may be nil. An error means that the meter refuses an instrument.
func New(o *Options) (*Telemetry, error) {
	f, v := o.withDefaults(), version.Read(module).Version
	t := &Telemetry{
		tracer:     f.TracerProvider.Tracer(module, trace.WithInstrumentationVersion(v)),
		meter:      f.MeterProvider.Meter(module, metric.WithInstrumentationVersion(v)),
		propagator: f.Propagator,
		messaging:  f.Messaging,
	}
	var err error
	t.instruments, err = newInstruments(t.meter)
	return t, err
}

// The attributes of spans, metrics and logs.
const (
	attrLayer     = attribute.Key("retrysafe.layer")
	attrOperation = attribute.Key("retrysafe.operation")
	attrKeyHash   = attribute.Key("retrysafe.key.hash")
	attrOutcome   = attribute.Key("retrysafe.outcome")
	attrAttempt   = attribute.Key("retrysafe.attempt")
	attrFence     = attribute.Key("retrysafe.fence")
	attrDuplicate = attribute.Key("retrysafe.duplicate")
	attrCause     = attribute.Key("retrysafe.cause")
	attrCalls     = attribute.Key("retrysafe.store.calls")
	attrOp        = attribute.Key("retrysafe.store.op")
	attrTry       = attribute.Key("retrysafe.delivery.try")
	attrErrorType = attribute.Key("error.type")
)

// markFailed marks a span as failed, by one word. Texts of errors may show anything, so none is
// used.
func markFailed(span trace.Span, word string) {
	span.SetStatus(codes.Error, word)
	span.SetAttributes(attrErrorType.String(word))
}

// endAfter ends a span after f has returned, panicked or ended its goroutine. word is empty if it
// went well.
func endAfter(span trace.Span, f func() (word string)) {
	word := "panic"
	defer func() {
		if word != "" {
			markFailed(span, word)
		}
		span.End()
	}()
	word = f()
}

// resultWord returns the word for the result of work.
func resultWord(errs ...error) string {
	for _, err := range errs {
		if err != nil {
			return "failed"
		}
	}
	return ""
}

// linkTo returns a link to the span that the headers name; none if they name none.
func (t *Telemetry) linkTo(headers propagation.TextMapCarrier) []trace.Link {
	sc := trace.SpanContextFromContext(t.propagator.Extract(context.Background(), headers))
	if !sc.IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: sc}}
}
