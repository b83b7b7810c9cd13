package httpidem_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestProblemsNameTheHeader tests that a client that sent no key, or one that is too short, learns
// where this service looks for it.
func TestProblemsNameTheHeader(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	h := httpidem.New(e, &httpidem.Options{
		Credentials: new(httpidem.Credentials),
		Key:         httpidem.Required, KeySource: httpidem.KeySource{Header: []string{"X-Request-Key", "X-Old-Key"}, MinLength: 30},
	}).Handler(http.NotFoundHandler())
	for key, want := range map[string]string{
		"": "Send a random key in X-Request-Key or X-Old-Key,", "not a key\x7f": "In X-Old-Key, ", "short": "at least 30 characters in X-Request-Key or X-Old-Key,",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
		if key != "" {
			r.Header.Set(map[bool]string{true: "X-Request-Key", false: "X-Old-Key"}[key == "short"], key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Contains(t, w.Body.String(), want, "what a key %q is told", key)
	}
}
