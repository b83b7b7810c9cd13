package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// collector is an OTLP collector over HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	traces  []*tracepb.TracesData
	metrics []*metricspb.MetricsData
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := new(collector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch r.URL.Path {
		case "/v1/traces":
			one := new(tracepb.TracesData)
			if err == nil {
				err = proto.Unmarshal(body, one)
			}
			c.traces = append(c.traces, one)
		case "/v1/metrics":
			one := new(metricspb.MetricsData)
			if err == nil {
				err = proto.Unmarshal(body, one)
			}
			c.metrics = append(c.metrics, one)
		}
		if err != nil {
			http.Error(w, "no OTLP", http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// TestTelemetry: a gateway with the variables of OpenTelemetry exports a span for each guarded
// request, continues the client's trace, passes it on to the service, and exports what is left when
// it ends.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	parents := make(chan string, 2)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parents <- r.Header.Get("traceparent") }))
	t.Cleanup(up.Close)
	c := startCollector(t)
	process, base, log := startGatewayIn(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_SERVICE_NAME=front", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
	}, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", "memory:")
	const trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/orders?q=query-secret", strings.NewReader("body-secret"))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", "a-key-secret-of-twenty-two-characters")
		r.Header.Set("Authorization", "Bearer token-secret")
		r.Header.Set("traceparent", "00-"+trace+"-"+client+"-01")
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "round trip")
		assert.NoError(t, resp.Body.Close(), "close")
		assert.Equal(t, resp.StatusCode, http.StatusOK, "status")
	}
	assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "signal")
	assert.NoError(t, process.Wait(), "the gateway ends: %s", log)
	parent := <-parents

	c.mu.Lock()
	defer c.mu.Unlock()
	var outcomes []string
	for _, request := range c.traces {
		for _, r := range request.GetResourceSpans() {
			assert.Contains(t, r.GetResource().String(), `"front"`, "name of the service")
			assert.Contains(t, r.GetResource().String(), `"deployment.environment.name"`, "attributes of the resource")
			for _, s := range r.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					assert.Equal(t, hex.EncodeToString(span.GetTraceId()), trace, "trace")
					assert.Equal(t, hex.EncodeToString(span.GetParentSpanId()), client, "parent")
					for _, a := range span.GetAttributes() {
						if a.GetKey() == "retrysafe.outcome" {
							outcomes = append(outcomes, fmt.Sprint(a.GetValue().GetStringValue(), " ", len(span.GetLinks())))
						}
					}
					if len(span.GetLinks()) == 0 {
						assert.Equal(t, parent, "00-"+trace+"-"+hex.EncodeToString(span.GetSpanId())+"-01", "what the service got")
					}
				}
			}
		}
	}
	assert.Equal(t, strings.Join(outcomes, ", "), "executed 0, replayed 1", "spans")
	all := fmt.Sprint(c.traces, c.metrics)
	for _, name := range []string{"retrysafe.calls", "retrysafe.doubts.open", "retrysafe.store.duration", "retrysafe.duplicates"} {
		assert.Contains(t, fmt.Sprint(c.metrics), name, "metrics")
	}
	assert.True(t, !strings.Contains(all, "secret"), "no secret is exported")
}

// TestTelemetryOfTheEnvironment: what the gateway cannot export is refused, and nothing is exported
// unless the environment asks for it.
func TestTelemetryOfTheEnvironment(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(up.Close)
	for env, want := range map[string]string{
		"OTEL_TRACES_EXPORTER=zipkin": "use otlp or none", "OTEL_METRICS_EXPORTER=prometheus": "/metrics",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_PROTOCOL=http/json":          "use http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_PROPAGATORS=b3":                            "use tracecontext, baggage or none",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: grpc is not supported; use http/protobuf",
	} {
		run := newCommand(t, "gateway", "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", "memory:")
		run.Env = append(run.Environ(), strings.Fields(env)...)
		out, err := run.CombinedOutput()
		assert.True(t, err != nil && strings.Contains(string(out), want), "%s: %v %s", env, err, out)
	}
	c := startCollector(t)
	for _, env := range [][]string{
		{"OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL},
		{"OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL},
		{"OTEL_SERVICE_NAME=front"},
	} {
		process, base, log := startGatewayIn(t, env, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", "memory:")
		_, _, _ = postPayment(t, base, "a-key-of-twenty-two-characters")
		assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "signal")
		assert.NoError(t, process.Wait(), "the gateway ends: %s", log)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(t, len(c.traces)+len(c.metrics), 0, "exports")
}
