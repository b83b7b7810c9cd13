package mqidem_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestRefusalWithoutDeadLetterRunsNowhereElse: under Refuse the consumer is replaced by another
// process, which gets the message and does not run it.
func TestRefusalWithoutDeadLetterRunsNowhereElse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var here atomic.Bool
		var kept []mqidem.Reason
		for range 2 {
			h := func(_ context.Context, m *mqidem.Message) error {
				w.recordBegin(m)
				return retrysafe.Permanent("declined", errWork)
			}
			stop := w.consume(mqidem.Once(w.newEngine(w.store), "stock", h, refuse), mqidem.Options{DeadLetter: failUntil(&here, &kept)})
			w.passTime(500 * time.Millisecond)
			assert.NoError(t, stop(), "consume")
		}
		w.expectRuns("one")
	})
}

// TestWaitingForDeadLetterIsNoTry: a refusal that waited to be dead-lettered is dead-lettered by
// the next process for the same reason, not for its tries, for which redrivers put it back.
func TestWaitingForDeadLetterIsNoTry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var here atomic.Bool
		var kept []mqidem.Reason
		for range 2 {
			stop := w.consume(mqidem.Once(w.newEngine(w.store), "stock", w.handler(func(*mqidem.Message, int) error { return retrysafe.Permanent("declined", errWork) })),
				mqidem.Options{DeadLetter: failUntil(&here, &kept)})
			w.passTime(5 * time.Minute)
			here.Store(true)
			assert.NoError(t, stop(), "consume")
		}
		assert.Equal(t, len(kept), 1, "dead letters")
		assert.Equal(t, kept[0].Why, mqidem.DeadRefused, "why")
	})
}
