package httpidem_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestSteps tests that a handler continues after the steps of the one before it, and that one with
// other steps does not count as the end of its work.
func TestSteps(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	idem := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}})
	charged := 0
	charge := func(r *http.Request) (int, error) {
		return retrysafe.Step(r.Context(), "charge", func(context.Context) (int, error) { charged++; return charged, nil })
	}
	post := func(key string, h http.HandlerFunc) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		idem.Handler(h).ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		return w.Code, string(body)
	}
	half := func(w http.ResponseWriter, r *http.Request) {
		_, err := charge(r)
		assert.NoError(t, err, "a step")
		w.WriteHeader(http.StatusServiceUnavailable) // released: a retry runs
	}
	for _, key := range []string{"a-key-that-is-used-again", "a-key-of-another-program"} {
		status, _ := post(key, half)
		assert.Equal(t, status, 503, "the first")
	}
	status, body := post("a-key-that-is-used-again", func(w http.ResponseWriter, r *http.Request) {
		_, err := charge(r)
		assert.NoError(t, err, "a step that was done")
		_, _ = io.WriteString(w, "on its way")
	})
	assert.True(t, status == 200 && body == "on its way", "the retry: %d %s", status, body)
	status, body = post("a-key-of-another-program", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "on its way") })
	assert.True(t, status == 409 && strings.Contains(body, "outcome-unknown"), "a handler without the step: %d %s", status, body)
	assert.Equal(t, charged, 2, "charges")
}
