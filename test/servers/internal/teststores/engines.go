package teststores

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ShortEngine returns an engine that ends with the test.
func ShortEngine(t *testing.T, s storeapi.Store, p retrysafe.Policy) *retrysafe.Engine {
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

// Engine returns an engine that does not sweep. It is shut down when the test ends.
func Engine(t *testing.T, s storeapi.Store) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}
