package check_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestLimitedRate: 429 asks for the same request again. It is no refusal of what a check is about.
func TestLimitedRate(t *testing.T) {
	t.Parallel()
	var requests, orders atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = fmt.Fprintf(w, `{"id":"order_%d"}`, orders.Add(1))
	}))
	t.Cleanup(server.Close)
	report, err := check.Examine(t.Context(), check.Target{
		Request: check.Request{URL: server.URL + "/orders", Body: []byte(`{"amount":500}`)}, Oracle: counter{&orders},
	}, &check.Options{Only: []string{"doubled-key", "empty-key"}, Rate: 1e6})
	assert.NoError(t, err, "examine")
	assert.Equal(t, verdictOf(t, report, "doubled-key"), check.Broken, "doubled-key")
	assert.Equal(t, verdictOf(t, report, "empty-key"), check.Noted, "empty-key")
}
