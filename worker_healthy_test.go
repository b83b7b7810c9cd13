package retrysafe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var errLineCut = errors.New("the line is cut")

// TestHealthyWorkerIsSilent: during a day in which a worker finishes abandoned calls, it logs no
// warning and no store call fails. The bubble checks that no goroutine is left.
func TestHealthyWorkerIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
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
		}).WithPolicy(retrysafe.Policy{Lease: 30 * time.Second, OnDoubt: retrysafe.Reexecute})
		defer func() { _ = e.Shutdown(context.Background()) }()
		tries, sent := map[string]int{}, 0
		op := retrysafe.NewOperation(e, "send", func(_ context.Context, p parcel) (string, error) {
			if tries[p.To]++; tries[p.To] == 1 && strings.HasSuffix(p.To, "0") {
				return "", errLineCut // its caller does not retry
			}
			sent++
			return "sent", nil
		}, nil).Resumable()
		worker := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: logger}, op)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		const day = 24 * 60
		for i := range day {
			to := fmt.Sprint("house ", i)
			_, err := op.Do(ctx, "ann", to, parcel{To: to})
			assert.Equal(t, err != nil, i%10 == 0, "%s: %v", to, err)
			time.Sleep(time.Minute)
		}
		time.Sleep(10 * time.Minute)
		assert.Equal(t, sent, day, "parcels that were sent")
		assert.Equal(t, log.String(), "", "warnings and errors")
		assert.Equal(t, failed, 0, "calls of the store that failed")
		stop()
		assert.NoError(t, <-ended, "Run")
	})
}
