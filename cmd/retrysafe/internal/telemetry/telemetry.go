// Package telemetry exports what a gateway does by OTLP, as the environment variables of
// OpenTelemetry say.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/version"
)

// service is the name of the service if the environment has none.
const service = "retrysafe-gateway"

// Telemetry exports until Shutdown.
type Telemetry struct {
	*otelidem.Telemetry
	metrics   bool
	shutdowns []func(context.Context) error
}

// ExportsMetrics reports whether metrics are exported.
func (t *Telemetry) ExportsMetrics() bool { return t.metrics }

// FromEnvironment returns a telemetry that exports as the environment says, or nil if it asks for
// none: neither an endpoint nor an exporter is set, or OTEL_SDK_DISABLED is true. log gets failures
// of the export, at most one in ten seconds.
func FromEnvironment(ctx context.Context, log *slog.Logger) (*Telemetry, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil //nolint:nilnil // as documented
	}
	traces, err := isExported("TRACES")
	metrics, errMetrics := isExported("METRICS")
	propagator, errPropagator := parsePropagators(os.Getenv("OTEL_PROPAGATORS"))
	if err := errors.Join(err, errMetrics, errPropagator); err != nil {
		return nil, err
	}
	if !traces && !metrics {
		return nil, nil //nolint:nilnil // as documented
	}
	otel.SetErrorHandler(&failureLog{log: log})
	t := &Telemetry{metrics: metrics}
	if err := t.openProviders(ctx, traces, metrics, propagator); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	log.Info("telemetry is exported by OTLP", "traces", traces, "metrics", metrics)
	return t, nil
}

func (t *Telemetry) openProviders(ctx context.Context, traces, metrics bool, propagator propagation.TextMapPropagator) error {
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName(service),
		semconv.ServiceVersion(version.Read("github.com/retrysafe/retrysafe/cmd/retrysafe").Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	tracers, err := t.newTracerProvider(ctx, traces, about)
	if err != nil {
		return err
	}
	meters, err := t.newMeterProvider(metrics, about)
	if err != nil {
		return err
	}
	t.Telemetry, err = otelidem.New(&otelidem.Options{TracerProvider: tracers, MeterProvider: meters, Propagator: propagator})
	return err
}

func (t *Telemetry) newTracerProvider(ctx context.Context, exported bool, about *resource.Resource) (trace.TracerProvider, error) {
	if !exported {
		return tracenoop.NewTracerProvider(), nil
	}
	exporter, err := spanExporter(ctx)
	if err != nil {
		return nil, err
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	t.shutdowns = append(t.shutdowns, p.Shutdown)
	return p, nil
}

func (t *Telemetry) newMeterProvider(exported bool, about *resource.Resource) (metric.MeterProvider, error) {
	if !exported {
		return metricnoop.NewMeterProvider(), nil
	}
	exporter, err := newMetricExporter()
	if err != nil {
		return nil, err
	}
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)), sdkmetric.WithResource(about))
	t.shutdowns = append(t.shutdowns, p.Shutdown)
	return p, nil
}

// exportTime is how long the last export may take.
const exportTime = 5 * time.Second

// Shutdown exports what is left. What cannot be exported is lost, and that is no error of the
// gateway: it is logged.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTime)
	defer cancel()
	for _, end := range t.shutdowns {
		if err := end(ctx); err != nil {
			otel.Handle(err)
		}
	}
	return nil
}

// parsePropagators returns what OTEL_PROPAGATORS names.
func parsePropagators(list string) (propagation.TextMapPropagator, error) {
	if list == "" {
		list = "tracecontext,baggage"
	}
	var all []propagation.TextMapPropagator
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "tracecontext":
			all = append(all, propagation.TraceContext{})
		case "baggage":
			all = append(all, propagation.Baggage{})
		case "none":
		default:
			return nil, fmt.Errorf("OTEL_PROPAGATORS: %q is unknown; use tracecontext, baggage or none", name)
		}
	}
	return propagation.NewCompositeTextMapPropagator(all...), nil
}
