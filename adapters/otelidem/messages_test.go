package otelidem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func contains(lines []string, part string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, part) })
}

// TestTraceThroughAQueue: a consumer continues the trace of the message that it handles, and links
// to the span that produced it; the relay's span links to it too.
func TestTraceThroughAQueue(t *testing.T) {
	t.Parallel()
	p, broker := newProbe(t), memqueue.New()
	e := p.engine(t, memstore.New(nil))
	ctx, request := p.provider.Tracer("test").Start(t.Context(), "request")
	out := outbox.Outgoing{Message: outbox.Message{ID: "id-secret", Topic: "orders", Payload: []byte("body-secret"), Headers: map[string]string{}}}
	p.Prepare(ctx, &out.Message)
	request.End()
	publisher := p.Publisher(broker)
	assert.True(t, publisher.KeepsOrder(), "the broker keeps the order")
	for _, err := range slices.Concat(publisher.Publish(t.Context(), []outbox.Outgoing{out}), publisher.Publish(t.Context(), []outbox.Outgoing{out})) {
		assert.NoError(t, err, "publish")
	}

	handled := make(chan mqidem.Outcome, 2)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	source := broker.Open("orders")
	go func() {
		ended <- mqidem.Consume(ctx, source, p.Consumer("memory", mqidem.Once(e, "stock", func(context.Context, *mqidem.Message) error { return nil })),
			&mqidem.Options{Concurrency: 1, OnOutcome: func(_ context.Context, o mqidem.Outcome) {
				p.OnOutcome(ctx, o)
				handled <- o
			}})
	}()
	for range 2 {
		select {
		case <-handled:
		case <-time.After(3 * time.Minute):
			t.Fatal("a message was not handled")
		}
	}
	stop()
	assert.NoError(t, <-ended, "consume")

	by := map[string][]string{}
	var create trace.SpanContext
	for _, s := range p.spans() {
		by[s.Name] = append(by[s.Name], fmt.Sprint(s.SpanKind, " ", len(s.Links)))
		assert.True(t, s.SpanContext.TraceID() == request.SpanContext().TraceID() || s.Name == "send", "trace of %s", s.Name)
		switch s.Name {
		case "create orders":
			create = s.SpanContext
			assert.Equal(t, s.Parent.SpanID(), request.SpanContext().SpanID(), "parent of the producer")
		case "process orders", "send":
			assert.Equal(t, s.Links[0].SpanContext.SpanID(), create.SpanID(), "link of %s", s.Name)
			assert.True(t, !contains([]string{text(s.Attributes)}, "messaging."), "no conventions without their opt-in: %s", text(s.Attributes))
		}
	}
	assert.Equal(t, fmt.Sprint(by), "map[create orders:[producer 0] process orders:[consumer 1 consumer 1] request:[internal 0] retrysafe mq:[internal 0 internal 1] send:[client 1 client 1]]", "spans")
	p.measured(t, "deliveries{outcome=done} 1", "deliveries{outcome=duplicate} 1")
}

// TestMessagingConventions: the opt-in adds the attributes of the conventions.
func TestMessagingConventions(t *testing.T) {
	t.Parallel()
	p := newProbe(t, func(o *otelidem.Options) { o.Messaging = true })
	m := outbox.Message{Topic: "orders", Headers: map[string]string{}}
	p.Prepare(t.Context(), &m)
	assert.Contains(t, text(p.last().Attributes), "messaging.operation.type=create", "producer")
	headers := map[string][]byte{"traceparent": []byte(m.Headers["traceparent"])}
	failing := p.BatchConsumer("kafka", func(context.Context, []*mqidem.Message) []error { return []error{nil, errors.New("no")} })
	_ = failing(t.Context(), []*mqidem.Message{{Source: "orders", Headers: headers}, {Source: "orders"}})
	got := p.last()
	assert.Equal(t, text(got.Attributes), "error.type=failed messaging.batch.message_count=2 messaging.destination.name=orders "+
		"messaging.operation.name=process messaging.operation.type=process messaging.system=kafka", "batch")
	assert.Equal(t, len(got.Links), 1, "links of a batch")
	_ = p.Publisher(memqueue.New()).Publish(t.Context(), []outbox.Outgoing{{Message: m}})
	assert.Contains(t, text(p.last().Attributes), "messaging.operation.type=send", "relay")
	p.OnBatch(t.Context(), outbox.Batch{Published: 2, Failed: 1, Oldest: time.Second})
	p.measured(t, "outbox.messages{outcome=published} 2", "outbox.messages{outcome=failed} 1", "outbox.delay{} count 1")
}

// TestSpanOfAPanic: the span of a handler that panics ends, and says so; the panic goes on.
func TestSpanOfAPanic(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	func() {
		defer func() { assert.Equal(t, recover(), any("no"), "the panic") }()
		_ = p.Consumer("memory", func(context.Context, *mqidem.Message) error { panic("no") })(t.Context(), &mqidem.Message{Source: "orders"})
	}()
	assert.Equal(t, p.last().Name, "process orders", "span")
	assert.Equal(t, p.last().Status.Description, "panic", "status")
}

func TestOptIn(t *testing.T) {
	for list, want := range map[string]bool{"": false, "http": false, "http,messaging": true, "messaging/dup": true, " messaging ": true, "nomessaging": false} {
		t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", list)
		p := newProbe(t)
		m := outbox.Message{Topic: "orders", Headers: map[string]string{}}
		p.Prepare(t.Context(), &m)
		assert.Equal(t, strings.Contains(text(p.last().Attributes), "messaging."), want, "opt-in %q", list)
	}
}
