package otelidem

import (
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a [Telemetry]. nil and every zero field are valid.
type Options struct {
	// TracerProvider makes the spans; default otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics; default otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Propagator reads and writes the trace in headers of requests and messages; default
	// otel.GetTextMapPropagator(), or W3C trace context while that is not set.
	Propagator propagation.TextMapPropagator
	// Messaging adds the attributes of the semantic conventions for messaging, which may still
	// change. It is also set by "messaging" or "messaging/dup" in the environment variable
	// OTEL_SEMCONV_STABILITY_OPT_IN.
	Messaging bool
}

// withDefaults returns the options with every default.
func (o *Options) withDefaults() Options {
	var f Options
	if o != nil {
		f = *o
	}
	if f.TracerProvider == nil {
		f.TracerProvider = otel.GetTracerProvider()
	}
	if f.MeterProvider == nil {
		f.MeterProvider = otel.GetMeterProvider()
	}
	if f.Propagator == nil {
		f.Propagator = otel.GetTextMapPropagator()
		if len(f.Propagator.Fields()) == 0 {
			f.Propagator = propagation.TraceContext{}
		}
	}
	f.Messaging = f.Messaging || optedIn(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN"))
	return f
}

// optedIn reports whether the list opts in to the conventions for messaging.
func optedIn(list string) bool {
	names := strings.Split(list, ",")
	return slices.ContainsFunc(names, func(name string) bool {
		name = strings.TrimSpace(name)
		return name == "messaging" || name == "messaging/dup"
	})
}
