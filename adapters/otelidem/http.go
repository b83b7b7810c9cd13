package otelidem

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Handler returns a handler that continues the trace of each request in next, so that a guarded
// call is a part of the caller's trace. It makes no span. It is not needed inside of middleware
// that does the same, such as otelhttp's.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(t.Continue(r.Context(), r.Header)))
	})
}

// Continue returns ctx with the trace that the header of a request names. It is for
// gateway.Options.Continue.
func (t *Telemetry) Continue(ctx context.Context, h http.Header) context.Context {
	return t.propagator.Extract(ctx, propagation.HeaderCarrier(h))
}

// Propagate writes the trace of ctx into the header of a request. It removes what the header had of
// another trace. It is for gateway.Options.Propagate.
func (t *Telemetry) Propagate(ctx context.Context, h http.Header) {
	for _, name := range t.propagator.Fields() {
		h[http.CanonicalHeaderKey(name)] = nil
	}
	t.propagator.Inject(ctx, propagation.HeaderCarrier(h))
}

// Transport returns a transport that makes a span of each request that it sends through base; nil
// means http.DefaultTransport. It is for httpidem.Transport.Base: the span of a try after the first
// has the attribute http.request.resend_count. It has the method and the address of the server,
// and neither path nor query, which may show a key.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{t, base}
}

type transport struct {
	telemetry *Telemetry
	base      http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (x *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := x.telemetry.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname())))
	defer span.End()
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		span.SetAttributes(attribute.Int("server.port", port))
	}
	markResend(ctx)
	out := r.WithContext(ctx)
	out.Header = r.Header.Clone()
	x.telemetry.Propagate(ctx, out.Header)
	for name, values := range out.Header {
		if len(values) == 0 {
			delete(out.Header, name)
		}
	}
	resp, err := x.base.RoundTrip(out)
	switch {
	case err != nil:
		markFailed(span, "no-answer")
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		if resp.StatusCode >= 400 {
			markFailed(span, strconv.Itoa(resp.StatusCode))
		}
	}
	return resp, err
}

// CloseIdleConnections calls the method of that name of the base, if there is one.
func (x *transport) CloseIdleConnections() {
	if c, ok := x.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// MarkResends returns a transport that sets http.request.resend_count on the span that a transport
// around it has made, otelhttp's for example, and makes none.
//
//	httpidem.Transport{Base: otelhttp.NewTransport(otelidem.MarkResends(nil))}
func MarkResends(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return marker{base}
}

type marker struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (m marker) RoundTrip(r *http.Request) (*http.Response, error) {
	markResend(r.Context())
	return m.RoundTripper.RoundTrip(r)
}

func markResend(ctx context.Context) {
	if n := httpidem.Resends(ctx); n > 0 {
		trace.SpanFromContext(ctx).SetAttributes(attribute.Int("http.request.resend_count", n))
	}
}
