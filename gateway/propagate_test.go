package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

type spanKey struct{}

// TestPropagate: the service of a guarded request gets the trace of its attempt in place of the
// client's; that of a request that is not guarded gets the client's.
func TestPropagate(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(r.Header["Traceparent"], r.Header["Tracestate"], r.Header["Baggage"]))
	}))
	t.Cleanup(up.Close)
	calls := 0
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: &retrysafe.Trace{
		Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
			calls++
			return context.WithValue(ctx, spanKey{}, fmt.Sprint(ctx.Value(spanKey{}), "-", calls)), func(retrysafe.CallDone) {}
		},
	}})
	base := serve(t, e, &gateway.Options{
		Upstreams: []string{up.URL},
		Continue: func(ctx context.Context, h http.Header) context.Context {
			return context.WithValue(ctx, spanKey{}, h.Get("traceparent"))
		},
		Propagate: func(ctx context.Context, h http.Header) {
			span, _ := ctx.Value(spanKey{}).(string)
			h.Set("traceparent", span)
			h["Baggage"] = nil
		},
	})
	// The third is too large to be sent on the goroutine of the request.
	large := strings.Repeat("x", 32<<10)
	for i, body := range []string{"first", "second", large, ""} {
		key := fmt.Sprint("k", i)
		if body == "" {
			key = ""
		}
		resp, _, err := send(t, base, "POST", key, body, "Traceparent", "client", "Tracestate", "a=1", "Baggage", "b=2")
		assert.NoError(t, err, "request")
		assert.Equal(t, resp.StatusCode, http.StatusOK, "status")
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, strings.Join(got, " "), "[client-1] [a=1] [] [client-2] [a=1] [] [client-3] [a=1] [] [client] [a=1] [b=2]", "fields of the service")
}
