package http_test

import (
	"context"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNginxSecret: nginx runs nothing with another secret than the one that its namespace was used
// with, and serves if it is the same.
func TestNginxSecret(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders()})
	store, same := f.records()
	for _, secret := range []string{"another secret than that of nginx", ""} {
		desk, err := admin.NewRecords(store, &admin.RecordsOptions{Secret: []byte(secret)})
		assert.NoError(t, err, "desk")
		_, err = desk.ReplaceSecret(t.Context(), "shop")
		assert.NoError(t, err, "replace")
		for range 4 { // both workers
			f.checkProblem(f.postOrder("k", "x"), 503, "store-unavailable", true)
		}
		f.checkStarts(0, "with another secret")
	}
	assert.Equal(t, f.sendRequest("GET", "/orders", "").status, 201, "what is not guarded passes")
	assert.True(t, strings.Contains(f.readLog(), "the secret is not the one that namespace shop was used with"), "the log says why")
	assert.True(t, !strings.Contains(f.readLog(), nginxSecret), "the log has no secret")

	desk, err := admin.NewRecords(store, &admin.RecordsOptions{Secret: []byte(nginxSecret)})
	assert.NoError(t, err, "desk")
	_, err = desk.ReplaceSecret(t.Context(), "shop")
	assert.NoError(t, err, "replace")
	assert.NoError(t, same.CheckSecret(context.Background()), "a gateway with the secret of nginx")
	for range 4 {
		assert.Equal(t, f.postOrder("k", "x").status, 201, "with the same secret")
	}
	f.checkStarts(2, "one request that is not guarded, and one key")
}
