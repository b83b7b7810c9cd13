package mqidem_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// When its context ends, a consumer receives nothing new and lets running work finish.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"), message("2", "two"))
		stop := w.consume(mqidem.Once(w.engine, "stock", func(ctx context.Context, m *mqidem.Message) error {
			w.recordBegin(m)
			time.Sleep(20 * time.Second)
			return ctx.Err()
		}), mqidem.Options{Concurrency: 1})
		w.passTime(time.Second)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("one")
		w.expectOutcomes(mqidem.OutcomeDone)
		waiting, _ := w.broker.Stats("q")
		assert.Equal(t, waiting, 1, "messages left")
	})
}

// Work that does not end with its context is abandoned: its message is redelivered, and its key
// stays claimed until the lease has expired, since the work may still act. The key is never
// released.
func TestDrainGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		over := make(chan struct{})
		defer close(over)
		cause := make(chan error, 1)
		stop := w.consume(mqidem.Once(w.engine, "stock", func(ctx context.Context, m *mqidem.Message) error {
			w.recordBegin(m)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			<-over
			return nil
		}), mqidem.Options{Drain: 5 * time.Second})
		w.passTime(time.Second)
		begun := time.Now()
		err := stop()
		assert.True(t, err != nil, "Consume says that work was left behind")
		assert.Contains(t, err.Error(), "1 handlers were still running", "error")
		assert.Equal(t, time.Since(begun), 6*time.Second, "time to the end")
		assert.Contains(t, (<-cause).Error(), "stopped", "cause of the handler's context")

		again := w.consume(mqidem.Once(w.newEngine(w.store), "stock", w.handler(nil)), mqidem.Options{})
		w.passTime(10 * time.Second)
		w.expectRuns("one") // within the lease
		w.passTime(time.Minute)
		assert.NoError(t, again(), "consume")
		w.expectRuns("one", "one")
	})
}

// Work that the end of its consumer cuts off is redelivered, and has used up no try.
func TestDrainCuts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		h := func(ctx context.Context, m *mqidem.Message) error {
			if w.recordBegin(m) == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		stop := w.consume(mqidem.Once(w.engine, "stock", h), mqidem.Options{Drain: time.Second})
		w.passTime(time.Second)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeLeft)
		again := w.consume(mqidem.Once(w.engine, "stock", h), mqidem.Options{})
		w.passTime(time.Second)
		assert.NoError(t, again(), "consume")
		w.expectOutcomes(mqidem.OutcomeDone, mqidem.OutcomeLeft)
		assert.Equal(t, w.outcomes[1].Try, 1, "try: to be told to end is none")
	})
}

// Messages of one name are handled one at a time and in order, also after one that fails. Messages
// of other names pass.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i := range 4 {
			for _, name := range []string{"a", "b"} {
				m := message(fmt.Sprint(name, i), fmt.Sprint(name, i))
				m.Key = name
				w.publish(m)
			}
		}
		stop := w.consume(mqidem.Once(w.engine, "stock", func(_ context.Context, m *mqidem.Message) error {
			if n := w.recordBegin(m); m.ID == "a1" && n < 3 {
				return errWork
			}
			if m.ID == "a2" {
				return mqidem.Poison(errWork)
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		}), mqidem.Options{Order: func(m *mqidem.Message) string { return m.Key }})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		of := map[byte][]string{}
		for _, body := range w.ran {
			of[body[0]] = append(of[body[0]], body)
		}
		assert.Equal(t, of['a'], []string{"a0", "a1", "a1", "a1", "a2", "a3"}, "order of a")
		assert.Equal(t, of['b'], []string{"b0", "b1", "b2", "b3"}, "order of b")
		assert.Equal(t, w.ran[len(w.ran)-1], "a3", "the last one: b did not wait for a")
		w.expectEmpty()
	})
}

// holder is a source that knows how long copies can stay in its queue.
type holder struct {
	mqidem.Source
	holds time.Duration
	err   error
}

func (h holder) HoldsFor(context.Context) (time.Duration, error) { return h.holds, h.err }

// Records that would expire before the last copy of a message are refused before anything runs.
func TestRetentionIsChecked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		consume := func(s mqidem.Source, opts ...retrysafe.CallOption) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return mqidem.Consume(ctx, s, mqidem.Once(w.engine, "stock", w.handler(nil), opts...), w.options(mqidem.Options{}))
		}
		s := w.broker.Open("q")
		err := consume(holder{s, 25 * time.Hour, nil})
		assert.Contains(t, fmt.Sprint(err), "records are kept for 24h0m0s, and the broker may deliver a copy of a message 25h0m0s later", "error")
		err = consume(holder{s, 0, errWork})
		assert.ErrorIs(t, err, errWork, "an error of the broker")
		assert.NoError(t, s.Close(), "close")
		w.expectRuns()
		s = w.broker.Open("q")
		assert.NoError(t, consume(holder{s, 25 * time.Hour, nil}, retrysafe.WithPolicy(retrysafe.Policy{Retention: 26 * time.Hour})), "consume")
		w.expectRuns("one")
		assert.NoError(t, s.Close(), "close")
	})
}

// A source that fails for good ends the consumer. Invalid options end it before it receives
// anything.
func TestConsumeErrors(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.broker.Open("q")
		assert.NoError(t, s.Close(), "close")
		h := mqidem.Once(w.engine, "stock", w.handler(nil))
		assert.ErrorIs(t, mqidem.Consume(t.Context(), s, h, nil), mqidem.ErrSourceClosed, "consume from a closed source")
		batch := mqidem.OnceBatch(w.engine, "stock", func(context.Context, []*mqidem.Message) []error { return nil })
		assert.ErrorIs(t, mqidem.ConsumeBatch(t.Context(), s, batch, nil), mqidem.ErrSourceClosed, "consume from a closed source")
		for name, o := range map[string]mqidem.Options{
			"Concurrency": {Concurrency: -1}, "Batch": {Batch: -1}, "Linger": {Linger: -1}, "Drain": {Drain: -1}, "MaxBody": {MaxBody: -1},
		} {
			assert.Contains(t, fmt.Sprint(mqidem.Consume(t.Context(), s, h, &o)), name, "error")
		}
		o := mqidem.Options{Order: func(*mqidem.Message) string { return "" }}
		assert.Contains(t, fmt.Sprint(mqidem.ConsumeBatch(t.Context(), s, batch, &o)), "Order is for Consume", "error")
		for what, make := range map[string]func(){
			"a consumer without a name": func() { mqidem.Once(w.engine, "", h) },
			"a policy that is refused":  func() { mqidem.Once(w.engine, "x", h, retrysafe.WithPolicy(retrysafe.Policy{Lease: 1})) },
			"no pointer":                func() { mqidem.FromBody("order.id") },
		} {
			func() {
				defer func() { assert.True(t, recover() != nil, "%s panics", what) }()
				make()
			}()
		}
	})
}

// DeadLetter stores a message elsewhere. If it fails, the message is not lost and not marked as
// dead: it is held, and dead-lettered later.
func TestDeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var here atomic.Bool
		var kept []mqidem.Reason
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { return errWork })), mqidem.Options{
			MaxAttempts: 1,
			DeadLetter: func(_ context.Context, m *mqidem.Message, why mqidem.Reason) error {
				if !here.Load() {
					return errors.New("the table is away")
				}
				kept = append(kept, why)
				return nil
			},
		})
		w.passTime(time.Minute)
		assert.Equal(t, w.record("stock", "1").State != retrysafe.StateFailed, true, "the record is not failed")
		w.expectOutcomes(mqidem.OutcomeLater)
		here.Store(true)
		w.passTime(2 * time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeDead, mqidem.OutcomeLater)
		assert.Equal(t, len(kept), 1, "kept")
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
		w.expectRuns("one") // once: the try was used up, and nothing ran after that
		assert.Equal(t, w.record("stock", "1").State, retrysafe.StateFailed, "state")
		w.expectEmpty()
	})
}

// stopping is a store whose process dies after a message was dead-lettered and before its record
// says so.
type stopping struct {
	storeapi.Store
	die func()
}

func (s stopping) Complete(ctx context.Context, r storeapi.CompleteRequest) (retrysafe.Record, error) {
	if r.State == retrysafe.StateFailed {
		s.die()
		return retrysafe.Record{}, errors.New("dead")
	}
	return s.Store.Complete(ctx, r)
}

// If a consumer dies between writing a dead letter and finishing its record, copies become dead
// letters too. They do not run and are not lost.
func TestDeathAfterDeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var e *retrysafe.Engine
		e = w.newEngine(stopping{w.store, func() { go w.killEngine(e) }})
		w.publish(message("1", "one"), message("1", "one"))
		stop := w.consume(mqidem.Once(e, "stock", w.handler(func(*mqidem.Message, int) error { return errWork })), mqidem.Options{MaxAttempts: 1, Concurrency: 1})
		w.passTime(time.Minute)
		_ = stop()
		again := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Hour)
		assert.NoError(t, again(), "consume")
		w.expectRuns("one")
		assert.Equal(t, len(w.deadLetters()), 2, "dead letters: the message and its copy")
		w.expectEmpty()
	})
}
