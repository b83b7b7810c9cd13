package otelidem

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/mqidem"
)

// messageHeaders are the headers of a message, for a propagator that reads them.
type messageHeaders map[string][]byte

func (h messageHeaders) Get(name string) string { return string(h[name]) }
func (h messageHeaders) Set(name, value string) { h[name] = []byte(value) }
func (h messageHeaders) Keys() (names []string) { return slices.Collect(maps.Keys(h)) }

// consumerAttrs returns the attributes of a consumer, if the conventions for messaging are on.
func (t *Telemetry) consumerAttrs(system, source string) []attribute.KeyValue {
	if !t.messaging {
		return nil
	}
	return []attribute.KeyValue{
		attribute.String("messaging.system", system), attribute.String("messaging.destination.name", source),
		attribute.String("messaging.operation.name", "process"), attribute.String("messaging.operation.type", "process"),
	}
}

// Consumer returns a handler that makes a span of each delivery around h, which is usually
// mqidem.Once or mqidem.OnceTx. The span continues the trace of the message and has a link to the
// span that produced it. If the context that Consume passes has a span, that one is its parent, and
// the link remains. A delivery that is a duplicate has such a span too. system is the broker
// as the conventions for messaging name it: rabbitmq, kafka, nats.
func (t *Telemetry) Consumer(system string, h mqidem.Handler) mqidem.Handler {
	return func(ctx context.Context, m *mqidem.Message) (err error) {
		links := t.linkTo(messageHeaders(m.Headers))
		ctx, span := t.tracer.Start(t.continueTrace(ctx, m.Headers), "process "+m.Source, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
			trace.WithAttributes(append(t.consumerAttrs(system, m.Source), attrTry.Int(m.Deliveries))...))
		endAfter(span, func() string {
			err = h(ctx, m)
			return resultWord(err)
		})
		return err
	}
}

// continueTrace returns ctx with the trace and the baggage of the headers, unless ctx has a span.
func (t *Telemetry) continueTrace(ctx context.Context, headers messageHeaders) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return t.propagator.Extract(ctx, headers)
}

// BatchConsumer is [Telemetry.Consumer] for batches: one span for each batch, with a link for each
// message. It continues no trace, since the messages are of many.
func (t *Telemetry) BatchConsumer(system string, h mqidem.BatchHandler) mqidem.BatchHandler {
	return func(ctx context.Context, ms []*mqidem.Message) (errs []error) {
		source, all := "", []trace.Link(nil)
		for _, m := range ms {
			source, all = m.Source, append(all, t.linkTo(messageHeaders(m.Headers))...)
		}
		attrs := t.consumerAttrs(system, source)
		if t.messaging {
			attrs = append(attrs, attribute.Int("messaging.batch.message_count", len(ms)))
		}
		ctx, span := t.tracer.Start(ctx, "process "+source, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(all...), trace.WithAttributes(attrs...))
		endAfter(span, func() string {
			errs = h(ctx, ms)
			return resultWord(errs...)
		})
		return errs
	}
}

// OnOutcome counts the outcome of a delivery. It is for mqidem.Options.OnOutcome.
func (t *Telemetry) OnOutcome(ctx context.Context, o mqidem.Outcome) {
	t.deliveries.Add(ctx, 1, metric.WithAttributes(attrOutcome.String(o.What)))
}
