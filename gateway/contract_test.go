package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestContractOfRoutes tests the gateway's own refusals, which the middleware does not make, in the
// form of the contract of the route, and what pages of other origins may read.
func TestContractOfRoutes(t *testing.T) {
	t.Parallel()
	base := fromFile(t, `
defaults: {tenant: global, contract: stripe, cors: {origins: "*", expose: X-Count}}
routes:
  - {match: "POST /acp", contract: acp, on_doubt: reexecute}
  - {match: "POST /custom", contract: custom}
`, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	post := func(path string) (resp *http.Response, body string) {
		resp = sendOnly(t, http.MethodPost, base+path, "{}", "Idempotency-Key", "k", "Origin", "https://shop.example", "Content-Type", "application/json")
		b, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "body")
		return resp, string(b)
	}
	for path, want := range map[string]struct{ media, begin, exposed string }{
		"/stripe": {"application/json", `{"error":{"type":"api_error","code":"outcome_unknown","message":`, "Idempotent-Replayed, Idempotency-Stored, Retry-After, Location, Link, Idempotency-Key, X-Count"},
		"/acp":    {"application/json", `{"type":"processing_error","code":"outcome_unknown","message":`, "Idempotent-Replayed, Idempotency-Stored, Retry-After, Location, Link, Idempotency-Key"},
		"/custom": {"application/problem+json", `{"type":"https://`, "Idempotency-Replayed, Idempotency-Stored, Retry-After, Location, Link"},
	} {
		resp, body := post(path)
		assert.Equal(t, resp.StatusCode, http.StatusBadGateway, "%s: the service cuts the connection (body %s)", path, body)
		assert.Equal(t, resp.Header.Get("Content-Type"), want.media, "%s: media type", path)
		assert.True(t, strings.HasPrefix(body, want.begin) && json.Valid([]byte(body)), "%s: document %s", path, body)
		assert.True(t, strings.HasPrefix(resp.Header.Get("Access-Control-Expose-Headers"), want.exposed), "%s: headers for pages: %s", path, resp.Header.Get("Access-Control-Expose-Headers"))
	}
	// A path that can be read in two ways has no route: the defaults decide.
	resp, body := post("/x%2F..%2Facp")
	assert.Equal(t, resp.StatusCode, http.StatusBadRequest, "an ambiguous path (body %s)", body)
	assert.True(t, strings.HasPrefix(body, `{"error":{"type":"invalid_request_error","code":"request_ambiguous","message":`), "document of an ambiguous path: %s", body)
	// Under Refuse a duplicate is refused too, and keeps the status of the outcome.
	resp, body = post("/stripe")
	assert.Equal(t, resp.StatusCode, http.StatusConflict, "a duplicate of it")
	assert.Contains(t, body, `"type":"invalid_request_error","code":"outcome_unknown"`, "its document")
	assert.Equal(t, resp.Header.Get("Idempotency-Key"), "k", "its key")
}
