package idserver_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestFastPath: the fast path serves requests for ids; pages for operators, which may be large, and
// what is refused are net/http's.
func TestFastPath(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t)
	defer s.Close(t.Context())
	for request, want := range map[[2]string]bool{
		{http.MethodGet, "/api/snowflake/get/x"}: true, {http.MethodGet, "/api/segment/get/order?count=7"}: true, {http.MethodGet, "/api/time"}: true,
		{http.MethodGet, "/metrics"}: false, {http.MethodGet, "/"}: false, {http.MethodPost, "/api/time"}: false,
	} {
		assert.Equal(t, s.FastPath(httptest.NewRequestWithContext(t.Context(), request[0], request[1], nil)), want, "%v", request)
	}
}
