// Package otelidem reports what retrysafe does to OpenTelemetry, as spans and metrics.
//
//	tel, err := otelidem.New(nil) // the global providers
//	e := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: secret, Trace: tel.Trace()})
//
// Each guarded call is a span: the time in which it waits, claims its key, runs the work and stores
// the answer. A duplicate has a span of its own, with a link to the span that made its answer, also
// if that was another process on another day: the traceparent is stored with the answer, 61 bytes.
//
// [Telemetry.Handler] and [Telemetry.Propagate] carry a trace through HTTP, [Telemetry.Prepare] and
// [Telemetry.Consumer] through the rows of an outbox and a broker to the consumer.
// [Telemetry.Transport] makes a span of each try of httpidem.Transport. docs/opentelemetry.md has
// the names of all spans, attributes and metrics.
//
// No span and no metric ever has a key, a body, an error text or a secret. A span has the keyed
// hash of the key, as logs and the command line show it. Metrics have neither hash nor operation,
// since both are without number.
package otelidem
