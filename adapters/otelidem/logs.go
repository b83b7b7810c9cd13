package otelidem

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler that adds to each line what a span has too, under the same names:
// trace_id and span_id, and inside of a guarded call also retrysafe.layer, retrysafe.operation and
// retrysafe.key.hash. Log with the context of the work (slog.InfoContext and so on).
func (t *Telemetry) LogHandler(inner slog.Handler) slog.Handler { return &logHandler{inner, t} }

type logHandler struct {
	slog.Handler
	telemetry *Telemetry
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	if c := h.telemetry.callOf(ctx); c != nil {
		r = r.Clone()
		r.AddAttrs(slog.String(string(attrLayer), c.layer), slog.String(string(attrOperation), c.info.Key.Operation),
			slog.String(string(attrKeyHash), c.info.Hash()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.telemetry}
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.telemetry}
}
