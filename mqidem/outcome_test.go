package mqidem_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

type consumerKey struct{}

// TestOutcomeContext: the context of OnOutcome has the values of that of Consume, and is not ended
// by the end of Consume.
func TestOutcomeContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var got []any
		ctx, stop := context.WithCancel(context.WithValue(t.Context(), consumerKey{}, "stock"))
		source := w.broker.Open("q")
		err := mqidem.Consume(ctx, source, mqidem.Once(w.engine, "stock", func(context.Context, *mqidem.Message) error {
			stop()
			return nil
		}), &mqidem.Options{Drain: time.Minute, Logger: slog.New(slog.DiscardHandler), OnOutcome: func(ctx context.Context, o mqidem.Outcome) {
			got = append(got, o.What, ctx.Value(consumerKey{}), ctx.Err())
		}})
		assert.NoError(t, err, "consume")
		assert.NoError(t, source.Close(), "close")
		assert.Equal(t, got, []any{mqidem.OutcomeDone, "stock", nil}, "outcome, value and error of the context")
	})
}
