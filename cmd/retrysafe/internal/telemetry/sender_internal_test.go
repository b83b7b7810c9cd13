package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSend: what a request is like, and which answers are tried again.
func TestSend(t *testing.T) {
	var seen []*http.Request
	var body []byte
	answers := []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusOK}
	var partial []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		body, _ = io.ReadAll(r.Body)
		status := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		w.WriteHeader(status)
		_, _ = w.Write(partial)
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/base/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x-tenant = t ")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")
	s, err := newSender("TRACES")
	assert.NoError(t, err, "a sender")
	assert.NoError(t, s.send(t.Context(), []byte("spans")), "send")
	assert.Equal(t, len(seen), 3, "tries")
	last := seen[2]
	assert.Equal(t, last.Method+" "+last.URL.Path, "POST /base/v1/traces", "request")
	assert.Equal(t, last.Header.Get("Api-Key")+"|"+last.Header.Get("X-Tenant")+"|"+last.Header.Get("Content-Type"), "a b|t|application/x-protobuf", "fields")
	z, err := gzip.NewReader(bytes.NewReader(body))
	assert.NoError(t, err, "gzip")
	plain, err := io.ReadAll(z)
	assert.NoError(t, err, "gzip")
	assert.Equal(t, string(plain), "spans", "body")

	answers = []int{http.StatusBadRequest}
	err = s.send(t.Context(), nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "400") && len(seen) == 4, "no other answer is tried again: %v, %d", err, len(seen))

	answers = []int{http.StatusOK}
	count := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)
	partial = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType),
		protowire.AppendBytes(protowire.AppendTag(count, 2, protowire.BytesType), []byte("too old")))
	err = s.send(t.Context(), nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), `refused 3 items: "too old"`), "a partial success: %v", err)
}

// TestSendEndsWithItsContext: a collector that is away holds no one up.
func TestSendEndsWithItsContext(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", " http://secret:word@127.0.0.1:1/x\n")
	s, err := newSender("TRACES")
	assert.NoError(t, err, "a sender")
	assert.Equal(t, s.url, "http://secret:word@127.0.0.1:1/x", "the address of a signal is used as it is")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.send(ctx, nil)
	assert.True(t, errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "word"), "error: %v", err)
}

// TestSendByTLS: a collector whose certificate is of an authority of the environment.
func TestSendByTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	assert.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600), "a file")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	s, err := newSender("METRICS")
	assert.NoError(t, err, "a sender")
	assert.NoError(t, s.send(t.Context(), nil), "send")
}

// TestWrongSettings: an error names the variable, and shows no secret.
func TestWrongSettings(t *testing.T) {
	for name, value := range map[string]string{
		"METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram",
		"ENDPOINT":                              "localhost:4318", "TRACES_ENDPOINT": "ftp://user:secret@host", "TIMEOUT": "10s", "COMPRESSION": "zstd",
		"HEADERS": "secret", "CERTIFICATE": "/there/is/none.pem", "CLIENT_KEY": "/there/is/none.pem",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(setting+name, value)
			_, err := newSender("TRACES")
			if strings.HasPrefix(name, "METRICS_") {
				t.Setenv(setting+"ENDPOINT", "http://localhost:4318")
				_, err = isExported("METRICS")
			}
			assert.True(t, err != nil && strings.Contains(err.Error(), setting+name) && !strings.Contains(err.Error(), "secret"), "error: %v", err)
		})
	}
}

// TestWrongHeaders: nothing of a field that is written like one of HTTP goes into an error.
func TestWrongHeaders(t *testing.T) {
	for _, value := range []string{"Authorization: Bearer c2VjcmV0=", "=secret", "a b=secret", "x=secret%0a"} {
		t.Setenv(setting+"HEADERS", value)
		_, err := newSender("TRACES")
		assert.True(t, err != nil && !strings.Contains(err.Error(), "c2VjcmV0") && !strings.Contains(err.Error(), "secret"), "%q: %v", value, err)
	}
}

// TestRetryAfter: seconds or a date, within an hour.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "7": 7 * time.Second, "99999": time.Hour, "Mon, 02 Jan 2006 15:04:05 GMT": 0, "Mon, 02 Jan 2205 15:04:05 GMT": time.Hour,
	} {
		assert.Equal(t, retryAfter(http.Header{"Retry-After": {text}}), want, "%q", text)
	}
}

// TestMetrics: every kind of instrument that packages of retrysafe have arrives.
func TestMetrics(t *testing.T) {
	var got metricspb.MetricsData
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || proto.Unmarshal(body, &got) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
	e, err := newMetricExporter()
	assert.NoError(t, err, "an exporter")
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e, sdkmetric.WithInterval(time.Hour))))
	m := p.Meter("shop")
	with := metric.WithAttributes(attribute.String("s", "text"), attribute.Bool("b", true), attribute.Int("i", 7), attribute.StringSlice("l", []string{"x"}))
	counter, err := m.Int64Counter("counter", metric.WithUnit("{call}"), metric.WithDescription("calls"))
	assert.NoError(t, err, "counter")
	counter.Add(t.Context(), 2, with)
	level, err := m.Int64UpDownCounter("level")
	assert.NoError(t, err, "level")
	level.Add(t.Context(), -1)
	timer, err := m.Float64Histogram("timer", metric.WithExplicitBucketBoundaries(1, 2))
	assert.NoError(t, err, "timer")
	timer.Record(t.Context(), 1.5)
	_, err = m.Float64ObservableGauge("gauge", metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error { o.Observe(0.5); return nil }))
	assert.NoError(t, err, "gauge")
	assert.NoError(t, p.Shutdown(t.Context()), "shutdown")

	assert.Equal(t, len(got.GetResourceMetrics()), 1, "resources")
	found := map[string]*metricspb.Metric{}
	for _, s := range got.GetResourceMetrics()[0].GetScopeMetrics() {
		assert.Equal(t, s.GetScope().GetName(), "shop", "scope")
		for _, m := range s.GetMetrics() {
			found[m.GetName()] = m
		}
	}
	c := found["counter"]
	assert.Equal(t, c.GetUnit()+" "+c.GetDescription(), "{call} calls", "what the counter says of itself")
	assert.True(t, c.GetSum().GetIsMonotonic() && c.GetSum().GetAggregationTemporality() == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, "sum: %v", c)
	point := c.GetSum().GetDataPoints()[0]
	assert.Equal(t, point.GetAsInt(), 2, "count")
	assert.Equal(t, len(point.GetAttributes()), 4, "attributes")
	for _, a := range point.GetAttributes() {
		v := a.GetValue()
		assert.True(t, v.GetStringValue() == "text" || v.GetBoolValue() || v.GetIntValue() == 7 || len(v.GetArrayValue().GetValues()) == 1, "attribute %s: %v", a.GetKey(), v)
	}
	l := found["level"].GetSum()
	assert.True(t, !l.GetIsMonotonic() && l.GetDataPoints()[0].GetAsInt() == -1 &&
		l.GetAggregationTemporality() == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, "level: %v", l)
	h := found["timer"].GetHistogram().GetDataPoints()[0]
	assert.True(t, h.GetCount() == 1 && h.GetSum() == 1.5 && h.GetMin() == 1.5 && h.GetMax() == 1.5 && h.GetTimeUnixNano() > h.GetStartTimeUnixNano(), "histogram: %v", h)
	assert.Equal(t, len(h.GetExplicitBounds()), 2, "bounds")
	assert.True(t, len(h.GetBucketCounts()) == 3 && h.GetBucketCounts()[1] == 1, "buckets: %v", h.GetBucketCounts())
	assert.Equal(t, found["gauge"].GetGauge().GetDataPoints()[0].GetAsDouble(), 0.5, "gauge")
}

// TestTemporality: by default everything is cumulative.
func TestTemporality(t *testing.T) {
	t.Parallel()
	for kind := sdkmetric.InstrumentKindCounter; kind <= sdkmetric.InstrumentKindGauge; kind++ {
		assert.Equal(t, temporalityOf(kind), metricdata.CumulativeTemporality, "of %v", kind)
	}
}

// FuzzRejected: an answer from outside cannot do more than to be an error.
func FuzzRejected(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x03})
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(_ *testing.T, answer []byte) { _ = rejectedError(answer) })
}
