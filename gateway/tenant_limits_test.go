package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestTenantLimits tests that two gateways on one store share the limits of a tenant, as do their
// routes, each of which has its own limit.
func TestTenantLimits(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(up.Close)
	store := memstore.New(nil)
	var gateways []*shop
	for range 2 {
		c, err := config.Parse([]byte("upstream: "+up.URL+`
defaults: {limits: {live: 3, bytes: 64MiB}}
routes:
  - {match: POST /more, limits: {live: 4, new_per_s: 0.01}}
  - {match: POST /free, limits: none}
  - {match: POST /tokens, key: token}
`), nil)
		assert.NoError(t, err, "parse")
		o, policy, err := c.Options()
		assert.NoError(t, err, "options")
		gateways = append(gateways, &shop{base: serve(t, newEngine(t, store, policy), o)})
	}
	n := 0
	post := func(path, user, key string) string {
		t.Helper()
		n++
		status, body, h := gateways[n%2].ask(t, "POST", path, user, "tea", "Idempotency-Key", key)
		_, code, _ := strings.Cut(body, `"code":"`)
		code, _, _ = strings.Cut(code, `"`)
		return strings.TrimSpace(fmt.Sprint(status, " ", code, " ", h.Get("Idempotency-Replayed")))
	}
	token := gateways[0].token(t, "ann")
	for i := range 3 {
		assert.Equal(t, post("/orders", "ann", fmt.Sprint("k", i)), "201", "one of three")
	}
	assert.Equal(t, post("/orders", "ann", "k3"), "429 too-many-keys", "a fourth")
	assert.Equal(t, post("/elsewhere", "ann", "k3"), "429 too-many-keys", "a fourth on another path")
	assert.Equal(t, post("/orders", "ann", "k0"), "201  true", "a repeat")
	assert.Equal(t, post("/tokens", "ann", token), "429 too-many-keys", "a token is a key too")
	assert.Equal(t, post("/orders", "bob", "k3"), "201", "another tenant")
	assert.Equal(t, post("/more", "ann", "k3"), "201", "a route that allows more")
	assert.Equal(t, post("/more", "ann", "k4"), "429 too-many-keys", "a fifth there")
	assert.Equal(t, post("/more", "bob", "k4"), "201", "the first there of another tenant")
	assert.Equal(t, post("/more", "bob", "k5"), "429 too-many-keys", "it comes too fast")
	for i := range 5 {
		assert.Equal(t, post("/free", "ann", fmt.Sprint("k", i)), "201", "a route without limits")
	}
}
