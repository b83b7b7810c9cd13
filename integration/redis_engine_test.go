package integration_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisstore"
)

// redisEngine returns an engine that ends with the test.
func redisEngine(t *testing.T, s retrysafe.Store, p retrysafe.Policy) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{
		Namespace: "app",
		Policy:    p, Secret: []byte("0123456789abcdef"), Sweep: -1, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = e.Shutdown(ctx)
	})
	return e
}

// faultStoreKey returns the store key under which this package's engines keep orderKey.
func faultStoreKey(id string) retrysafe.StoreKey {
	return retrysafe.StoreKey{Namespace: "app", Layer: "fn", Key: orderKey(id)}
}

// work counts its runs.
type work struct{ runs atomic.Int64 }

func (w *work) run(context.Context) (int64, error) { return w.runs.Add(1), nil }

// doubts returns the records in doubt, as an operator would list them.
func doubts(t *testing.T, s *redisstore.Store) (all []retrysafe.Record) {
	t.Helper()
	for after := ""; ; {
		page, err := s.List(t.Context(), retrysafe.ListRequest{InDoubt: true, After: after, Limit: 1000})
		assert.NoError(t, err, "list")
		all = append(all, page.Records...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

// longSoak reports whether this is a long run.
func longSoak() bool { return os.Getenv("RETRYSAFE_SOAK") == "long" }

var errFaultWork = errors.New("the work failed")
