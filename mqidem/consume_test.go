package mqidem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Each consumer works once on a message that is published three times.
func TestOncePerConsumer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.broker.Bind("orders", "q", "other")
		order := message("o-1", "order")
		order.Topic = "orders"
		w.publish(order, order, order)
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{})
		other, ctx := w.broker.Open("other"), w.t.Context()
		for range 3 {
			d, err := other.Receive(ctx)
			assert.NoError(t, err, "receive")
			assert.NoError(t, mqidem.Once(w.engine, "points", w.handler(nil))(ctx, d.Message()), "points")
		}
		w.passTime(10 * time.Second)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("order", "order")
		w.expectEmpty()
	})
}

// A message that fails is tried again after the backoff, up to the limit. Then it is a dead letter
// with its reason, and a copy of it is acked.
func TestTries(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("bad", "bad"), message("good", "good"))
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(m *mqidem.Message, n int) error {
			if m.ID == "bad" || n < 3 {
				return errWork
			}
			return nil
		})), mqidem.Options{MaxAttempts: 4, Concurrency: 1})
		w.passTime(time.Second)
		w.expectRuns("bad", "good")
		w.passTime(3 * time.Second)
		w.expectRuns("bad", "good", "bad", "good")
		w.passTime(3 * time.Second)
		w.expectOutcomes(mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeAgain, mqidem.OutcomeDone)
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
		w.passTime(3 * time.Second)
		p := w.deadLetters()
		assert.Equal(t, len(p), 1, "dead letters")
		assert.Equal(t, string(p[0].Message.Body), "bad", "what is a dead letter")
		assert.Equal(t, p[0].Reason.Until.Sub(p[0].Reason.At), 24*time.Hour, "how long the record is kept")
		p[0].Reason.At, p[0].Reason.Until = time.Time{}, time.Time{}
		assert.Equal(t, p[0].Reason, mqidem.Reason{
			Why: mqidem.DeadTries, Error: "no stock", Tries: 4, Consumer: "stock", Key: "app/mq//stock/bad", Source: "q",
		}, "reason")
		w.publish(message("bad", "bad"))
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters, behind a copy")
		assert.Equal(t, len(w.ran), 7, "runs")
		assert.Equal(t, w.record("stock", "bad").State, retrysafe.StateFailed, "state of the record")
		w.expectEmpty()
	})
}

// A message that can never succeed becomes a dead letter at once, with its reason.
func TestDeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 5000)
	for name, one := range map[string]struct {
		message outbox.Message
		handler mqidem.Handler
		options mqidem.Options
		why     string
		runs    int
	}{
		"poison":            {message("1", "x"), func(context.Context, *mqidem.Message) error { return mqidem.Poison(errWork) }, mqidem.Options{}, mqidem.DeadPoison, 1},
		"refused for good":  {message("1", "x"), func(context.Context, *mqidem.Message) error { return retrysafe.Permanent("no", errWork) }, mqidem.Options{}, mqidem.DeadRefused, 1},
		"undecodable":       {message("1", "\xff\xfe{"), mqidem.JSON(func(context.Context, map[string]int, *mqidem.Message) error { return nil }), mqidem.Options{}, mqidem.DeadPoison, 1},
		"no id":             {message("", "x"), nil, mqidem.Options{}, mqidem.DeadNoID, 0},
		"too large":         {message("1", "12345"), nil, mqidem.Options{MaxBody: 4}, mqidem.DeadTooLarge, 0},
		"no id in the body": {message("1", `{"order":{}}`), nil, mqidem.Options{ID: mqidem.FromBody("/order/id")}, mqidem.DeadNoID, 0},
		"body is no JSON":   {message("1", `<order/>`), nil, mqidem.Options{ID: mqidem.FromBody("/order/id")}, mqidem.DeadPoison, 0},
		"a long error":      {message("1", "x"), func(context.Context, *mqidem.Message) error { return mqidem.Poison(errors.New(long)) }, mqidem.Options{}, mqidem.DeadPoison, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.publish(one.message)
				ran := 0
				stop := w.consume(mqidem.Once(w.engine, "stock", func(ctx context.Context, m *mqidem.Message) error {
					ran++
					if one.handler == nil {
						return nil
					}
					return one.handler(ctx, m)
				}), one.options)
				w.passTime(time.Second)
				assert.NoError(t, stop(), "consume")
				w.expectOutcomes(mqidem.OutcomeDead)
				p := w.deadLetters()
				assert.Equal(t, len(p), 1, "dead letters")
				assert.Equal(t, p[0].Reason.Why, one.why, "why")
				assert.True(t, p[0].Reason.Error != "", "the reason has words")
				assert.Equal(t, ran, one.runs, "runs")
				w.expectEmpty()
			})
		})
	}
}

// An id may have any length, come from another place, or be made if there is none.
func TestIDs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		long := strings.Repeat("l", 10_000)
		one, two := outbox.Message{Payload: []byte("one"), Headers: map[string]string{"Event": long}}, outbox.Message{Payload: []byte("two")}
		w.publish(one, one, two, two)
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{ID: mqidem.FromHeader("Event"), MissingID: mqidem.BodyDigest, Concurrency: 1})
		w.passTime(time.Second)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeDone, mqidem.OutcomeDuplicate, mqidem.OutcomeDone, mqidem.OutcomeDuplicate)
		w.expectRuns("one", "two")
		assert.Equal(t, w.record("stock", retrysafe.KeyPart(long)).State, retrysafe.StateCompleted, "state")
	})
}

// A message that another consumer works on is redelivered later; no try is counted.
func TestInProgressElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _, err := w.newEngine(w.store).Layer("mq").Begin(w.t.Context(), retrysafe.Key{Operation: "stock", ID: "1"})
		assert.NoError(t, err, "begin")
		w.publish(message("1", "one"))
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{MaxAttempts: 2})
		w.passTime(time.Minute) // twice the lease
		assert.True(t, len(w.outcomes) > 5, "it came several times: %d", len(w.outcomes))
		for _, o := range w.outcomes {
			assert.Equal(t, [2]any{o.What, o.Try}, [2]any{mqidem.OutcomeLater, 0}, "outcome and try")
		}
		assert.NoError(t, a.Release(w.t.Context(), nil), "release")
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("one")
		w.expectEmpty()
	})
}

// A message that kills its consumers becomes a dead letter after as many deaths as there are tries:
// attempts whose lease expired count.
func TestKilledConsumersCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("killer", "killer"))
		over := make(chan struct{})
		defer close(over)
		for range 3 {
			e, s := w.newEngine(w.store), w.broker.Open("q")
			ctx, cancel := context.WithCancel(w.t.Context())
			go func() {
				_ = mqidem.Consume(ctx, s, mqidem.Once(e, "stock", func(ctx context.Context, m *mqidem.Message) error {
					w.recordBegin(m)
					<-over // never returns
					return nil
				}), w.options(mqidem.Options{MaxAttempts: 3}))
			}()
			w.passTime(time.Second)
			w.killEngine(e)
			assert.NoError(t, s.Close(), "close")
			cancel()
			w.passTime(time.Minute)
		}
		w.expectRuns("killer", "killer", "killer")
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{MaxAttempts: 3})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("killer", "killer", "killer")
		p := w.deadLetters()
		assert.Equal(t, len(p), 1, "dead letters")
		assert.Equal(t, p[0].Reason.Why, mqidem.DeadTries, "why")
		w.expectEmpty()
	})
}

// While the store does not answer, messages are held and no try is counted. They are done when the
// store answers.
func TestStoreAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var here atomic.Bool
		e := w.newEngine(storetest.NewFaulty(w.store, func(string, int) storetest.Fault {
			if here.Load() {
				return 0
			}
			return storetest.LoseRequest
		}))
		w.publish(message("1", "one"))
		stop := w.consume(mqidem.Once(e, "stock", w.handler(nil)), mqidem.Options{MaxAttempts: 1})
		w.passTime(10 * time.Minute)
		w.expectOutcomes()
		here.Store(true)
		w.passTime(10 * time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeDone)
		w.expectRuns("one")
	})
}

// A panic and a Goexit are failures like others. The value of the panic is not shown.
func TestPanics(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("panic", "panic"), message("exit", "exit"), message("index", "index"))
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(m *mqidem.Message, n int) error {
			switch m.ID {
			case "panic":
				panic("a secret")
			case "exit":
				runtime.Goexit()
			}
			one := []int{1}
			return fmt.Errorf("never %d", one[len(m.Body)])
		})), mqidem.Options{MaxAttempts: 2})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		reasons := map[string]string{}
		for _, p := range w.deadLetters() {
			reasons[p.Message.ID] = p.Reason.Error
		}
		assert.Equal(t, len(reasons), 3, "dead letters")
		assert.Equal(t, reasons["panic"], "mqidem: the handler panicked with a string", "reason")
		assert.Contains(t, reasons["index"], "index out of range", "reason")
		assert.Equal(t, len(w.ran), 6, "runs")
		w.expectEmpty()
	})
}

// Under Refuse a message whose try ended in doubt becomes a dead letter, and does not run again
// before an operator resolves it.
func TestInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"), message("2", "two"))
		h := mqidem.Once(w.engine, "stock", w.handler(func(m *mqidem.Message, n int) error {
			if m.ID == "1" {
				return errWork
			}
			return retrysafe.NothingDone(errWork)
		}), retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Refuse}))
		stop := w.consume(h, mqidem.Options{MaxAttempts: 2})
		w.passTime(time.Minute)
		w.publish(message("1", "one")) // a copy becomes a dead letter as well
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		why := map[string]int{}
		for _, p := range w.deadLetters() {
			why[p.Message.ID+" "+p.Reason.Why]++
		}
		assert.Equal(t, why, map[string]int{"1 in-doubt": 2, "2 tries": 1}, "dead letters")
		rec := w.record("stock", "1")
		assert.True(t, rec.InDoubt(), "the record is in doubt")
		w.expectEmpty()
	})
}

// Duplicates are acked whatever the policy says about duplicates.
func TestRepeatsUnderReject(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"), message("1", "one"))
		h := mqidem.Once(w.engine, "stock", w.handler(nil), retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Reject}))
		stop := w.consume(h, mqidem.Options{Concurrency: 1})
		w.passTime(time.Second)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeDone, mqidem.OutcomeDuplicate)
	})
}

// A handler without a record uses the broker's count, and has the same outcomes.
func TestPlainHandler(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("bad", "bad"), message("poison", "poison"), message("", "good"))
		stop := w.consume(w.handler(func(m *mqidem.Message, _ int) error {
			switch m.ID {
			case "bad":
				return errWork
			case "poison":
				return mqidem.Poison(errWork)
			}
			return nil
		}), mqidem.Options{MaxAttempts: 2})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeAgain, mqidem.OutcomeDead, mqidem.OutcomeDead, mqidem.OutcomeDone)
		assert.Equal(t, w.deadLetters()[0].Reason.Key, "", "key of a record that is not there")
		w.expectEmpty()
	})
}
