package httpidem_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestResends: each try says how many were sent before it.
func TestResends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var counts []int
		client := httpidem.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			counts = append(counts, httpidem.Resends(r.Context()))
			status := http.StatusServiceUnavailable
			if len(counts) == 3 {
				status = http.StatusOK
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service.test/", strings.NewReader("x"))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", "k-1")
		resp, err := client.RoundTrip(r)
		assert.NoError(t, err, "round trip")
		assert.NoError(t, resp.Body.Close(), "close")
		assert.Equal(t, fmt.Sprint(counts), "[0 1 2]", "counts")
	})
}
