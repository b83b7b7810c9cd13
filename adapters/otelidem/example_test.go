package otelidem_test

import (
	"context"
	"fmt"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A payment that is sent twice is charged once. The span of the duplicate has a link to the span in
// which the card was charged.
func Example() {
	// a program has one for OTLP
	ctx, spans := context.Background(), tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tel, err := otelidem.New(&otelidem.Options{TracerProvider: provider})
	if err != nil {
		panic(err)
	}
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{
		Namespace: "shop", Secret: []byte("16 random bytes!"), Trace: tel.Trace(), Logger: slog.New(slog.DiscardHandler),
	})
	payment := retrysafe.Key{Tenant: "ann", Operation: "pay", ID: "order-7"}
	for range 2 {
		_, err := retrysafe.Do(ctx, engine, payment, func(context.Context) (string, error) { return "receipt", nil })
		if err != nil {
			panic(err)
		}
	}
	all := spans.GetSpans()
	for _, s := range all {
		for _, a := range s.Attributes {
			if a.Key == "retrysafe.outcome" || a.Key == "retrysafe.duplicate" {
				fmt.Printf("%s: %s %v\n", s.Name, a.Key, a.Value.AsInterface())
			}
		}
	}
	fmt.Println("linked to the first:", all[1].Links[0].SpanContext.SpanID() == all[0].SpanContext.SpanID())
	// Output:
	// retrysafe fn: retrysafe.outcome executed
	// retrysafe fn: retrysafe.duplicate false
	// retrysafe fn: retrysafe.outcome replayed
	// retrysafe fn: retrysafe.duplicate true
	// linked to the first: true
}
