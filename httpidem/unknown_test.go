package httpidem_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestOperatorsUnknownAnswer: after an operator said that a request was done and that its answer is
// unknown, the answer to duplicates says nothing about the size of that answer.
func TestOperatorsUnknownAnswer(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	var key retrysafe.Key
	var fence retrysafe.Fence
	h := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a, _ := retrysafe.AttemptFrom(r.Context())
		key, fence = a.Key(), a.Fence()
		_ = a.LeaveInDoubt(r.Context(), retrysafe.ErrClosed)
	}))
	post(h, "/orders", "a-key-of-twenty-two-bytes")
	err := e.Layer("http").Resolve(t.Context(), key, retrysafe.Resolution{Fence: fence, Outcome: retrysafe.Done})
	assert.NoError(t, err, "resolve")
	w := post(h, "/orders", "a-key-of-twenty-two-bytes")
	var p httpidem.Problem
	assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), "problem: %s", w.Body)
	assert.Equal(t, p.Code, "answer-not-kept", "code")
	assert.True(t, strings.HasPrefix(p.Title, "This was done before") && !strings.Contains(p.Title, "large"), "title %q", p.Title)
}
