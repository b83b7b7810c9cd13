package teststores

import (
	"log/slog"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// Redis returns a store that does not log. o may be nil.
func Redis(tb testing.TB, c redisclient.Client, o *redisstore.Options) *redisstore.Store {
	tb.Helper()
	own := redisstore.Options{} // a copy: parallel callers share theirs
	if o != nil {
		own = *o
	}
	own.Logger = slog.New(slog.DiscardHandler)
	s, err := redisstore.New(tb.Context(), c, &own)
	assert.NoError(tb, err, "store")
	return s
}
