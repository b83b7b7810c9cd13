package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// protocol is how a signal is exported. The exporters read its address, its headers and the rest
// from the environment themselves.
type protocol string

const (
	none    protocol = "none"
	byHTTP  protocol = "http/protobuf"
	byGRPC  protocol = "grpc"
	setting          = "OTEL_EXPORTER_OTLP_"
)

// protocolOf returns how the signal (TRACES or METRICS) is exported. By default, a gateway exports
// a signal if there is an address for it: without one, the SDK would try this machine for ever.
func protocolOf(signal string) (protocol, error) {
	exporter, name := os.Getenv("OTEL_"+signal+"_EXPORTER"), "OTEL_"+signal+"_EXPORTER"
	if exporter == "" && cmp.Or(os.Getenv(setting+signal+"_ENDPOINT"), os.Getenv(setting+"ENDPOINT")) != "" {
		exporter = "otlp"
	}
	switch strings.ToLower(exporter) {
	case "", "none":
		return none, nil
	case "otlp":
	case "prometheus":
		return none, fmt.Errorf("%s: the gateway has metrics for Prometheus at /metrics of its operators' address; use otlp or none", name)
	default:
		return none, fmt.Errorf("%s: %q is unknown; use otlp or none", name, exporter)
	}
	switch by := protocol(cmp.Or(os.Getenv(setting+signal+"_PROTOCOL"), os.Getenv(setting+"PROTOCOL"), string(byHTTP))); by {
	case byHTTP, byGRPC:
		return by, nil
	default:
		return none, fmt.Errorf("%sPROTOCOL: %q is not supported; use http/protobuf or grpc", setting, string(by))
	}
}

func spanExporter(ctx context.Context, by protocol) (sdktrace.SpanExporter, error) {
	if by == byGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

func metricExporter(ctx context.Context, by protocol) (sdkmetric.Exporter, error) {
	if by == byGRPC {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}
