package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// plainStore is a store without any of the optional interfaces.
type plainStore struct{ storeapi.Store }

// TestHealthyRunIsSilent tests that two hours in which nothing fails, with each kind of store, log
// no warning and count no failure.
func TestHealthyRunIsSilent(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() storeapi.Store{
		"a store that sweeps":             func() storeapi.Store { return memstore.New(nil) },
		"one without optional interfaces": func() storeapi.Store { return plainStore{memstore.New(nil)} },
		"copies of one that sweeps":       func() storeapi.Store { return nearstore.New(memstore.New(nil), nil) },
		"copies of one without":           func() storeapi.Store { return nearstore.New(plainStore{memstore.New(nil)}, nil) },
	} {
		synctest.Test(t, func(t *testing.T) {
			log := new(lockedBuffer)
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			monitor, store := gateway.NewMonitor(&gateway.MonitorOptions{Logger: logger}), open()
			monitor.WatchInDoubt(store)
			e := retrysafe.New(store, &retrysafe.Options{Secret: []byte("16 random bytes!"), Logger: logger, Trace: monitor.Trace()})
			defer func() { _ = e.Shutdown(context.Background()) }()
			for i := range 240 {
				for range 2 {
					_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "orders", ID: fmt.Sprint(i)}, func(context.Context) (int, error) { return i, nil })
					assert.NoError(t, err, "%s: order %d", name, i)
				}
				time.Sleep(30 * time.Second)
			}
			assert.Equal(t, log.String(), "", "%s: warnings and errors", name)
			w := httptest.NewRecorder()
			gateway.Admin(gateway.NewLive(nil), e, monitor).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			for line := range strings.Lines(w.Body.String()) {
				if strings.HasPrefix(line, "retrysafe_store_errors_total{") || strings.HasPrefix(line, "retrysafe_doubts_total{") {
					assert.True(t, strings.HasSuffix(line, " 0\n"), "%s: %s", name, line)
				}
			}
		})
	}
}
