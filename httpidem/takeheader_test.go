package httpidem_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTakeHeader tests that fields that a proxy hands over as a whole are sent, stored and replayed
// like those that a handler sets, and that they never replace fields that are there already.
func TestTakeHeader(t *testing.T) {
	t.Parallel()
	type taker interface{ TakeHeader(http.Header) bool }
	for name, early := range map[string]bool{"nothing before": false, "a field before": true} {
		h := newMiddleware(t, &httpidem.Options{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			guard, ok := w.(taker)
			assert.True(t, ok, "%s: the writer takes fields", name)
			if early {
				w.Header().Set("X-Early", "1")
			}
			assert.Equal(t, guard.TakeHeader(http.Header{"X-Taken": {"a", "b"}, "Idempotency-Outcome": {"executed"}}), !early, "%s: taken", name)
			w.Header().Set("X-Later", "2")
			w.WriteHeader(http.StatusForbidden)
			assert.Equal(t, guard.TakeHeader(http.Header{"X-Late": {"1"}}), false, "%s: after the head", name)
			_, _ = io.WriteString(w, "body")
		}))
		var first, replay *httptest.ResponseRecorder
		for _, rec := range []**httptest.ResponseRecorder{&first, &replay} {
			*rec = httptest.NewRecorder()
			h.ServeHTTP(*rec, keyed("x"))
		}
		for field, want := range map[string]bool{"X-Taken": !early, "X-Early": early, "X-Later": true, "X-Late": false, "Idempotency-Outcome": false} {
			assert.Equal(t, first.Header()[field] != nil, want, "%s: %s", name, field)
		}
		if !early { // otherwise 403 says that nothing was done
			assert.Equal(t, replay.Header()["X-Taken"], []string{"a", "b"}, "the fields of the replay")
			assert.Equal(t, replay.Header().Get("Idempotency-Replayed"), "true", "a replay")
		}
	}
}
