package token_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var ctx = context.Background()

// secret is the same in all processes.
var secret = []byte("a secret of tests, of 32 bytes or more")

func newStore() *memstore.Store { return memstore.New(nil) }

func engineOn(t *testing.T, s storeapi.Store, p retrysafe.Policy) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Policy: p, Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = e.Shutdown(gone)
	})
	return e
}

// bubble runs f with a fake clock, on which waiting takes no time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// kinds are the two kinds of issuers.
var kinds = map[string]token.Options{"stored": {Rate: -1, Outstanding: -1}, "stateless": {Rate: -1, Outstanding: -1, StatelessSecret: secret}}

func issueToken(t *testing.T, i *token.Issuer, tenant string) string {
	t.Helper()
	text, err := i.Issue(ctx, tenant)
	assert.NoError(t, err, "issue")
	return text
}

// till is work that counts its runs.
type till struct{ n atomic.Int64 }

func (c *till) charge(context.Context) (int64, error) { return c.n.Add(1), nil }

// pay uses a token and returns the outcome as one word.
func (c *till) pay(t *testing.T, i *token.Issuer, tenant, text string) string {
	t.Helper()
	res, err := token.Do(ctx, i, tenant, text, c.charge)
	if err != nil {
		assert.ErrorIs(t, err, retrysafe.ErrNotIssued, "the only error here")
		return "refused"
	}
	if res.Replayed {
		return "replayed"
	}
	return "ran"
}
