package gateway

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestRequestsShareALook: requests that wait for the store's history wait for one look, and not for
// one after the other.
func TestRequestsShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewFaulty(memstore.New(nil), func(op string, _ int) storetest.Fault {
			if op == "lookup" {
				return storetest.Block
			}
			return 0
		})
		e := retrysafe.New(s, &retrysafe.Options{Sweep: -1})
		h := newHistoryCheck(e, &Options{}, slog.New(slog.DiscardHandler))
		var asked sync.WaitGroup
		began := time.Now()
		for range 20 {
			asked.Go(func() {
				err := h.requireHistory(t.Context())
				assert.True(t, errors.Is(err, retrysafe.ErrUnavailable), "error: %v", err)
			})
		}
		asked.Wait()
		assert.True(t, time.Since(began) <= 2*markTime, "20 requests waited for %v", time.Since(began))
		assert.NoError(t, e.Shutdown(t.Context()), "shut down")
	})
}
