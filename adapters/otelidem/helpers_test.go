package otelidem_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var charge = retrysafe.Key{Tenant: "tenant-secret", Operation: "charge", ID: "key-secret"}

// probe is a telemetry whose spans and metrics a test reads.
type probe struct {
	*otelidem.Telemetry
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	reader   *metric.ManualReader
}

func newProbe(t *testing.T, change ...func(*otelidem.Options)) *probe {
	t.Helper()
	p := &probe{exporter: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	p.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(p.exporter))
	o := &otelidem.Options{TracerProvider: p.provider, MeterProvider: metric.NewMeterProvider(metric.WithReader(p.reader))}
	for _, f := range change {
		f(o)
	}
	var err error
	p.Telemetry, err = otelidem.New(o)
	assert.NoError(t, err, "telemetry")
	return p
}

// engine returns an engine on s that reports to the probe.
func (p *probe) engine(t *testing.T, s storeapi.Store) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{
		Namespace: "shop", Secret: []byte("a secret of tests"), Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: p.Trace(),
	})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// spans returns the spans that have ended, in that order.
func (p *probe) spans() tracetest.SpanStubs { return p.exporter.GetSpans() }

// last returns the span that ended last.
func (p *probe) last() tracetest.SpanStub {
	all := p.spans()
	return all[len(all)-1]
}

// text returns attributes as text, in the order of their names.
func text(attrs []attribute.KeyValue) string {
	var all []string
	for _, a := range attrs {
		all = append(all, fmt.Sprintf("%s=%v", strings.TrimPrefix(string(a.Key), "retrysafe."), a.Value.AsInterface()))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// metrics returns the sums and counts of all metrics, as lines of name{attributes} value.
func (p *probe) metrics(t *testing.T) []string {
	t.Helper()
	var got metricdata.ResourceMetrics
	assert.NoError(t, p.reader.Collect(t.Context(), &got), "collect")
	var lines []string
	line := func(name string, set attribute.Set, value any) {
		lines = append(lines, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(name, "retrysafe."), text(set.ToSlice()), value))
	}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, x := range d.DataPoints {
					line(m.Name, x.Attributes, x.Value)
				}
			case metricdata.Gauge[int64]:
				for _, x := range d.DataPoints {
					line(m.Name, x.Attributes, x.Value)
				}
			case metricdata.Gauge[float64]:
				for _, x := range d.DataPoints {
					line(m.Name, x.Attributes, x.Value)
				}
			case metricdata.Histogram[int64]:
				for _, x := range d.DataPoints {
					line(m.Name, x.Attributes, fmt.Sprint("sum ", x.Sum))
				}
			case metricdata.Histogram[float64]:
				for _, x := range d.DataPoints {
					line(m.Name, x.Attributes, fmt.Sprint("count ", x.Count))
				}
			}
		}
	}
	return lines
}

// measured fails the test if the metrics do not have a line.
func (p *probe) measured(t *testing.T, want ...string) {
	t.Helper()
	got := p.metrics(t)
	for _, w := range want {
		assert.True(t, slices.Contains(got, w), "metric %s\namong\n%s", w, strings.Join(got, "\n"))
	}
}
