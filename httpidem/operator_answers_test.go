package httpidem_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestOperatorsAnswers: what duplicates get after an operator has resolved the outcome of a request
// in doubt. If its answer is unknown, nothing is said about the size of that answer.
func TestOperatorsAnswers(t *testing.T) {
	t.Parallel()
	const json, bytes = "application/json", "application/octet-stream"
	for name, c := range map[string]struct {
		with   retrysafe.Resolution
		status int
		media  string
		has    []string // in the body
	}{
		"done, with an answer in JSON": {retrysafe.Resolution{Outcome: retrysafe.Done, Answer: retrysafe.Answer{Codec: "json", Kept: true, Body: []byte(`{"order":7}`)}}, 200, json, []string{`{"order":7}`}},
		"done, with another answer":    {retrysafe.Resolution{Outcome: retrysafe.Done, Answer: retrysafe.Answer{Codec: "raw", Kept: true, Body: []byte("order 7")}}, 200, bytes, []string{"order 7"}},
		"done, its answer unknown":     {retrysafe.Resolution{Outcome: retrysafe.Done}, 409, "application/problem+json", []string{`"code":"answer-not-kept"`, `"title":"This was done before`}},
		"failed":                       {retrysafe.Resolution{Outcome: retrysafe.Failed, Failure: &retrysafe.Failure{Code: "no-stock", Message: "the bank refused it"}}, 409, "application/problem+json", []string{`"code":"resolved-failed"`, "the bank refused it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := answerAfter(t, c.with)
			assert.Equal(t, w.Code, c.status, "status")
			assert.Equal(t, w.Header().Get("Content-Type"), c.media, "media type")
			for _, want := range c.has {
				assert.Contains(t, w.Body.String(), want, "body")
			}
			assert.Equal(t, w.Header().Get("Idempotency-Replayed") == "true", c.status == 200, "marked as replayed")
			assert.True(t, !strings.Contains(w.Body.String(), "large"), "a size that is unknown: %s", w.Body)
		})
	}
}

// answerAfter leaves a request in doubt, resolves it, and returns the answer to its duplicate.
func answerAfter(t *testing.T, with retrysafe.Resolution) *httptest.ResponseRecorder {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), nil)
	var key retrysafe.Key
	h := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a, _ := retrysafe.AttemptFrom(r.Context())
		key, with.Fence = a.Key(), a.Fence()
		_ = a.LeaveInDoubt(r.Context(), retrysafe.ErrClosed)
	}))
	post(h, "/orders", "a-key-of-twenty-two-bytes")
	assert.NoError(t, e.Layer("http").Resolve(t.Context(), key, with), "resolve")
	return post(h, "/orders", "a-key-of-twenty-two-bytes")
}
