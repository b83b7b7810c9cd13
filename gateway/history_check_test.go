package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestHistoryWhileStoreIsAway: before the first answer of the store no new key runs, and then
// requests cost no call for its history.
func TestHistoryWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	s := newAwayShop(t, oneSecret, memstore.New(nil))
	assert.NoError(t, s.g.CheckSecret(t.Context()), "the secret")
	s.away.Store(true)
	assert.Equal(t, told(t, s.base, "POST", "k", "x"), "503 store-unavailable 1", "while it is away")
	assert.Equal(t, s.node.got.Load(), int64(0), "requests that were passed on")
	s.away.Store(false)
	assert.Equal(t, told(t, s.base, "POST", "k", "x"), "201", "when it is back")
	_, text := ask(t, s.admin, "/readyz")
	assert.True(t, !strings.Contains(text, "history"), "/readyz: %s", text)
	before := s.store.Calls("lookup")
	for i := range 5 {
		assert.Equal(t, told(t, s.base, "POST", fmt.Sprint("k-", i), "x"), "201", "a request")
	}
	assert.True(t, s.store.Calls("lookup") <= before+1, "looks for five requests: %d", s.store.Calls("lookup")-before)
}
