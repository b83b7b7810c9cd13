package check_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestRedirectIsExplained: an API that answers with a redirect is examined at the other address.
func TestRedirectIsExplained(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler("/v2/orders?token=secret", status))
		t.Cleanup(server.Close)
		_, err := check.Examine(t.Context(), check.Target{Request: check.Request{URL: server.URL + "/orders", Body: []byte(`{"a":1}`)}}, nil)
		assert.True(t, err != nil, "examine")
		assert.Contains(t, err.Error(), "redirects to "+server.URL+"/v2/orders", "error")
		assert.True(t, !strings.Contains(err.Error(), "secret"), "the query is not shown: %s", err)
	}
}
