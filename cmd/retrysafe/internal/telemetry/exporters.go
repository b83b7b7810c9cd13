package telemetry

import (
	"context"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The exporters of OpenTelemetry link gRPC and its gateway, also those that send over HTTP: five
// megabytes of the program. These send over HTTP alone.

func spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	s, err := newSender("TRACES")
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, spanClient{s})
}

// spanClient is the client of [otlptrace.Exporter].
type spanClient struct{ *sender }

func (spanClient) Start(context.Context) error { return nil }

func (c spanClient) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. TracesData is encoded as the request of a collector is.
func (c spanClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	return c.send(ctx, body)
}

// metricExporter implements [sdkmetric.Exporter].
type metricExporter struct{ *sender }

func newMetricExporter() (*metricExporter, error) {
	s, err := newSender("METRICS")
	return &metricExporter{s}, err
}

// temporalityOf is cumulative, as every collector takes it, unless the environment prefers deltas.
func temporalityOf(kind sdkmetric.InstrumentKind) metricdata.Temporality {
	synchronous := kind == sdkmetric.InstrumentKindCounter || kind == sdkmetric.InstrumentKindHistogram
	switch strings.ToLower(os.Getenv(setting + "METRICS_TEMPORALITY_PREFERENCE")) {
	case "delta":
		if synchronous || kind == sdkmetric.InstrumentKindObservableCounter {
			return metricdata.DeltaTemporality
		}
	case "lowmemory":
		if synchronous {
			return metricdata.DeltaTemporality
		}
	}
	return metricdata.CumulativeTemporality
}

func (*metricExporter) Temporality(kind sdkmetric.InstrumentKind) metricdata.Temporality {
	return temporalityOf(kind)
}

func (*metricExporter) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(kind)
}

// Export sends metrics. MetricsData is encoded as the request of a collector is.
func (e *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	body, err := proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{encodeMetrics(m)}})
	if err != nil {
		return err
	}
	return e.send(ctx, body)
}

// ForceFlush does nothing: Export keeps nothing.
func (*metricExporter) ForceFlush(ctx context.Context) error { return ctx.Err() }

func (e *metricExporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}
