package mqidem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestHealthyConsumerIsSilent: hours of messages, each sent twice and some tried twice, cause no
// warning, no dead letter and no failed call of the store. The bubble checks that no goroutine is
// left.
func TestHealthyConsumerIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		failed := 0
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{
			Secret: []byte("16 random bytes!"), Logger: logger, Trace: &retrysafe.Trace{Store: func(context.Context, retrysafe.StoreInfo) func(error) {
				return func(err error) {
					if err != nil {
						failed++
					}
				}
			}},
		})
		broker, tries, done, outcomes := memqueue.New(), map[string]int{}, 0, map[string]int{}
		handler := mqidem.Once(e, "stock", func(_ context.Context, m *mqidem.Message) error {
			if tries[m.ID]++; tries[m.ID] == 1 && m.ID[len(m.ID)-1] == '0' {
				return retrysafe.NothingDone(errors.New("the stock is being counted"))
			}
			done++
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- mqidem.Consume(ctx, broker.Open("orders"), handler, &mqidem.Options{
				MaxAttempts: 5, Backoff: mqidem.Fixed(3 * time.Second), Concurrency: 1, Logger: logger,
				OnOutcome: func(_ context.Context, o mqidem.Outcome) { outcomes[o.What]++ },
			})
		}()
		const hours = 6 * 60
		for i := range hours {
			publish(broker, fmt.Sprint("order ", i))
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		assert.Equal(t, done, hours, "orders")
		assert.Equal(t, log.String(), "", "warnings and errors")
		assert.Equal(t, failed, 0, "calls of the store that failed")
		assert.Equal(t, fmt.Sprint(outcomes), "map[again:36 done:360 duplicate:360]", "what became of the messages")
		stop()
		assert.NoError(t, <-ended, "Consume")
		assert.NoError(t, e.Shutdown(context.Background()), "Shutdown")
	})
}
