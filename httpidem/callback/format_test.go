package callback_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/callback"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestKeyIsFrozen: a later build knows the notifications that this one has handled.
func TestKeyIsFrozen(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	g := callback.New(retrysafe.New(s, nil), &callback.Options{Provider: "pay/é", ID: "/id", Verify: callback.Unverified, Policy: retrysafe.Policy{OnDoubt: retrysafe.Refuse}})
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/notify", strings.NewReader(`{"id":"evt-1"}`))
	r.Header.Set("Content-Type", "application/json")
	g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(httptest.NewRecorder(), r)
	page, err := s.List(t.Context(), storeapi.ListRequest{})
	assert.NoError(t, err, "list")
	assert.Equal(t, len(page.Records), 1, "records")
	text, err := page.Records[0].Key.MarshalText()
	assert.NoError(t, err, "key")
	// The id is SHA-256 of "retrysafe fields 1\n", 3 "/id", 5 "evt-1".
	assert.Equal(t, string(text), "app/callback/global/pay%2F%C3%A9/%01zAfldztWFEZ8AXPUtodfhmg5C1a450nqkNp5rX_yOqE", "the key")
}
