package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestRoutes tests that the settings of a route apply to what it matches, however the path is
// spelled.
func TestRoutes(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "effect %d", effects.Add(1))
	}))
	t.Cleanup(up.Close)
	c, err := config.Parse([]byte("upstream: "+up.URL+`
key_header: [Idempotency-Key, X-Request-Id]
routes:
  - {match: "POST /orders/**", key: required}
  - {match: "POST /votes", on_duplicate: reject}
  - {match: "POST /notify", on_duplicate: {status: 200, body: "success"}}
  - {match: "PUT /things/*", key: required}
  - {match: "* /things/**", key: required}
  - {match: "PUT /things/a/b", key: required}
  - {match: "POST /search", key: "off"}
`), nil)
	assert.NoError(t, err, "configuration")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	base := serve(t, newEngine(t, memstore.New(nil), policy), o)
	post := func(method, path, key string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader("x"))
		assert.NoError(t, err, "request")
		r.Header.Set("Authorization", "Bearer opaque")
		if key != "" {
			r.Header.Set("X-Request-Id", key)
		}
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "answer")
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		_, code, _ := strings.Cut(string(body), `"code":"`)
		code, _, _ = strings.Cut(code, `"`)
		return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", code, " ", resp.Header.Get("Idempotency-Replayed")))
	}
	for _, path := range []string{"/orders", "/orders/", "/orders/1/items", "/%6Frders/1", "//orders/1", "/x/../orders/1"} {
		assert.Equal(t, post("POST", path, ""), "400 key-missing", "%s needs a key", path)
	}
	for _, path := range []string{"/orders/x%2F..%2F..%2Fsearch", "/x%2F..%2Forders", "/orders%2F1", "/orders%5C..%2f1"} {
		assert.Equal(t, post("POST", path, ""), "400 request-ambiguous", "%s can be read in two ways", path)
	}
	assert.Equal(t, post("post", "/orders", ""), "400 request-ambiguous", "a method in small letters")
	assert.Equal(t, post("POST", "/orders/1%2Fitems", ""), "400 key-missing", "an encoded slash that makes no difference")
	assert.Equal(t, post("POST", "/other%2Fpath", ""), "200", "one that no route is near")
	assert.Equal(t, post("POST", "/ordersX", ""), "200", "another path")
	assert.Equal(t, post("GET", "/orders", ""), "200", "another method")
	assert.Equal(t, post("PUT", "/things/1", ""), "400 key-missing", "a method that a route guards")
	assert.Equal(t, post("PUT", "/things/1/2", ""), "200", "two segments are not one, and * is no method that is not guarded")
	assert.Equal(t, post("PUT", "/things/a/b", ""), "400 key-missing", "a later route for a method that * does not stand for")
	assert.Equal(t, post("PATCH", "/things/1/2", ""), "400 key-missing", "one that it stands for")
	for _, tt := range []struct{ path, want string }{
		{"/orders/2", "200  true"}, {"/votes", "409 already-done"}, {"/notify", "200  true"}, {"/search", "200"}, {"/other", "200  true"},
	} {
		assert.Equal(t, post("POST", tt.path, "k"), "200", "the first %s", tt.path)
		assert.Equal(t, post("POST", tt.path, "k"), tt.want, "a repeat of %s", tt.path)
	}
}
