package mqidem_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestHandlerOfHandlers: if a handler calls several handlers of this package, the most important
// result decides, whatever order they were called in and whatever the handler returns.
func TestHandlerOfHandlers(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"the dead letter first": true, "the dead letter last": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				poison := mqidem.Once(w.engine, "audit", func(context.Context, *mqidem.Message) error { return mqidem.Poison(errWork) })
				works := mqidem.Once(w.engine, "stock", w.handler(nil))
				w.publish(message("1", "x"))
				stop := w.consume(func(ctx context.Context, m *mqidem.Message) error {
					if first {
						_ = poison(ctx, m)
						return works(ctx, m)
					}
					err := works(ctx, m)
					_ = poison(ctx, m)
					return err
				}, mqidem.Options{})
				w.passTime(time.Minute)
				assert.NoError(t, stop(), "consume")
				w.expectOutcomes(mqidem.OutcomeDead)
				w.expectRuns("x")
				assert.Equal(t, len(w.deadLetters()), 1, "dead letters")
				w.expectEmpty()
			})
		})
	}
}
