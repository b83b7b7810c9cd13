package otelidem

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/outbox"
)

// Prepare makes a span for a message that is added to an outbox, and writes its context into the
// headers. They are stored in the message's row and reach the consumer, however late the message
// is published. It is for outbox.Options.Prepare.
func (t *Telemetry) Prepare(ctx context.Context, m *outbox.Message) {
	ctx, span := t.tracer.Start(ctx, "create "+m.Topic, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(t.producerAttrs("create", m.Topic)...))
	defer span.End()
	t.propagator.Inject(ctx, propagation.MapCarrier(m.Headers))
}

func (t *Telemetry) producerAttrs(operation, topic string) []attribute.KeyValue {
	if !t.messaging {
		return nil
	}
	return []attribute.KeyValue{
		attribute.String("messaging.destination.name", topic),
		attribute.String("messaging.operation.name", operation), attribute.String("messaging.operation.type", operation),
	}
}

// mostLinks is the most links of a span, as the SDK limits them too.
const mostLinks = 128

// Publisher returns a publisher that makes a span of each batch that p publishes, with a link to
// the span of each message that was prepared. It keeps the order if p does.
func (t *Telemetry) Publisher(p outbox.Publisher) outbox.Ordered { return &publisher{t, p} }

type publisher struct {
	telemetry *Telemetry
	inner     outbox.Publisher
}

// KeepsOrder implements [outbox.Ordered].
func (p *publisher) KeepsOrder() bool {
	in, ok := p.inner.(outbox.Ordered)
	return ok && in.KeepsOrder()
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, batch []outbox.Outgoing) (errs []error) {
	t, all := p.telemetry, []trace.Link(nil)
	for i := range batch[:min(len(batch), mostLinks)] {
		all = append(all, t.linkTo(propagation.MapCarrier(batch[i].Headers))...)
	}
	var attrs []attribute.KeyValue
	if t.messaging {
		attrs = append(t.producerAttrs("send", batch[0].Topic), attribute.Int("messaging.batch.message_count", len(batch)))
	}
	ctx, span := t.tracer.Start(ctx, "send", trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(all...), trace.WithAttributes(attrs...))
	endAfter(span, func() string {
		errs = p.inner.Publish(ctx, batch)
		return resultWord(errs...)
	})
	return errs
}

// OnBatch counts messages that were published. It is for outbox.RelayOptions.OnBatch.
func (t *Telemetry) OnBatch(ctx context.Context, b outbox.Batch) {
	for _, of := range []struct {
		outcome string
		n       int
	}{{"published", b.Published}, {"failed", b.Failed}, {"dead", b.Dead}} {
		if of.n > 0 {
			t.published.Add(ctx, int64(of.n), metric.WithAttributes(attrOutcome.String(of.outcome)))
		}
	}
	if b.Published > 0 {
		t.delay.Record(ctx, b.Oldest.Seconds())
	}
}
