package otelidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// failing returns a service behind the middleware that fails twice before it answers.
func (p *probe) failing(t *testing.T) *httptest.Server {
	t.Helper()
	var asked atomic.Int32
	guard := httpidem.New(p.engine(t, memstore.New(nil)), &httpidem.Options{Tenant: httpidem.Global})
	guarded := p.Handler(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("body-secret"))
	})))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 2 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func post(t *testing.T, client *httpidem.Transport, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/pay/path-secret?q=query-secret", strings.NewReader("body-secret"))
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", "key-secret-0123456789-0123456789")
	resp, err := client.RoundTrip(r)
	assert.NoError(t, err, "round trip")
	assert.NoError(t, resp.Body.Close(), "close")
	assert.Equal(t, resp.StatusCode, http.StatusOK, "status")
	assert.Equal(t, r.Header.Get("traceparent"), "", "the caller's request stays as it is")
}

// TestTransport: each try has a span with its number, and the server's call is in the trace of the
// last one.
func TestTransport(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	post(t, &httpidem.Transport{Base: p.Transport(nil), MinWait: time.Millisecond}, p.failing(t).URL)
	var tries []string
	var last trace.SpanContext
	for _, s := range p.spans() {
		switch s.Name {
		case "POST":
			tries = append(tries, text(s.Attributes))
			last = s.SpanContext
			assert.Equal(t, s.SpanKind, trace.SpanKindClient, "kind")
		case "retrysafe http":
			assert.True(t, s.Parent.IsRemote(), "the server's call has the client's span as its parent")
			defer func() { assert.Equal(t, s.Parent.SpanID(), last.SpanID(), "parent of the call") }()
		}
	}
	assert.Equal(t, len(tries), 3, "tries")
	for i, want := range []string{"http.response.status_code=503", "http.request.resend_count=1", "http.request.resend_count=2"} {
		assert.Contains(t, tries[i], want, "try %d", i+1)
	}
	assert.True(t, !strings.Contains(tries[0], "resend_count"), "the first try was not sent before: %s", tries[0])
}

// TestMarkResends: a span that another transport has made gets the number.
func TestMarkResends(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	marked := otelidem.MarkResends(nil)
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		ctx, span := p.provider.Tracer("otelhttp").Start(r.Context(), "theirs")
		defer span.End()
		return marked.RoundTrip(r.WithContext(ctx))
	})
	post(t, &httpidem.Transport{Base: base, MinWait: time.Millisecond}, p.failing(t).URL)
	var got []string
	for _, s := range p.spans() {
		if s.Name == "theirs" {
			got = append(got, text(s.Attributes))
		}
	}
	assert.Equal(t, fmt.Sprintf("%q", got), `["" "http.request.resend_count=1" "http.request.resend_count=2"]`, "attributes")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPropagate: the fields of another trace do not stay beside ours.
func TestPropagate(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	h := http.Header{"Traceparent": {"theirs"}, "Tracestate": {"a=1"}}
	p.Propagate(context.Background(), h)
	assert.Equal(t, fmt.Sprint(h), "map[Traceparent:[] Tracestate:[]]", "without a trace")
	ctx, span := p.provider.Tracer("test").Start(t.Context(), "x")
	span.End()
	p.Propagate(ctx, h)
	assert.Contains(t, h.Get("traceparent"), span.SpanContext().SpanID().String(), "with a trace")
}
