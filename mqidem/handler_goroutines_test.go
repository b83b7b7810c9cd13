package mqidem_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestHandlerGoexit: after handlers have ended their goroutines or panicked, the same consumer
// handles further messages, as many at a time as before. When it has ended, no goroutine is left:
// the bubble would not end.
func TestHandlerGoexit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var at, most atomic.Int64
		stop := w.consume(mqidem.Once(w.engine, "stock", func(_ context.Context, m *mqidem.Message) error {
			n := w.recordBegin(m)
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			time.Sleep(time.Second)
			switch {
			case m.ID == "exits" && n < 3:
				runtime.Goexit()
			case m.ID == "panics" && n < 3:
				panic("at first")
			}
			return nil
		}), mqidem.Options{Concurrency: 2})
		w.publish(message("exits", "exits"), message("panics", "panics"))
		w.passTime(time.Minute)
		assert.Equal(t, most.Load(), int64(2), "handlers at one time")
		w.publish(message("1", "one"), message("2", "two"), message("3", "three"))
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("exits", "exits", "exits", "panics", "panics", "panics", "one", "two", "three")
		w.expectOutcomes(mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeDone, mqidem.OutcomeDone, mqidem.OutcomeDone, mqidem.OutcomeDone, mqidem.OutcomeDone)
		assert.Equal(t, most.Load(), int64(2), "handlers at one time")
		w.expectEmpty()
	})
}

// TestIdleConsumer: a consumer has goroutines for the messages at hand, not for Concurrency.
func TestIdleConsumer(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	serialBubble(t, func(t *testing.T, w *world) {
		began := runtime.NumGoroutine()
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{Concurrency: 10_000})
		w.passTime(time.Second)
		assert.True(t, runtime.NumGoroutine() < began+1000, "goroutines: %d, before %d", runtime.NumGoroutine(), began)
		assert.NoError(t, stop(), "consume")
	})
}

// TestHandsOutsideOfConsume: a handler that is called elsewhere has a goroutine of its own for each
// call, which ends.
func TestHandsOutsideOfConsume(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := mqidem.Once(w.engine, "stock", func(context.Context, *mqidem.Message) error {
			runtime.Goexit()
			return nil
		}, retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}))
		for range 3 {
			err := h(t.Context(), &mqidem.Message{ID: "1", Source: "q"})
			assert.Contains(t, err.Error(), "ended its goroutine", "error")
		}
		assert.NoError(t, mqidem.Once(w.engine, "other", w.handler(nil))(t.Context(), &mqidem.Message{ID: "1", Source: "q"}), "another handler")
	})
}
