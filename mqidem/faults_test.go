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
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

var refuse = retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Refuse})

// failUntil returns a DeadLetter that fails until here is true.
func failUntil(here *atomic.Bool, kept *[]mqidem.Reason) func(context.Context, *mqidem.Message, mqidem.Reason) error {
	return func(_ context.Context, _ *mqidem.Message, why mqidem.Reason) error {
		if !here.Load() {
			return errors.New("the dead-letter queue is away")
		}
		*kept = append(*kept, why)
		return nil
	}
}

// Under Refuse, work in doubt does not run again because the dead-letter queue is unavailable.
func TestRefuseDeadLetterFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var here atomic.Bool
		var kept []mqidem.Reason
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { return errWork }), refuse), mqidem.Options{DeadLetter: failUntil(&here, &kept)})
		w.passTime(time.Minute)
		here.Store(true)
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		t.Logf("runs %d, dead letters %+v", len(w.ran), kept)
		w.expectRuns("one")
	})
}

// Under Refuse, no message of a batch runs twice because the handler panicked.
func TestRefuseBatchPanic(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		effects := map[string]int{}
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", func(_ context.Context, ms []*mqidem.Message) []error {
			for _, m := range ms {
				if m.ID == "3" {
					panic("bad")
				}
				effects[m.ID]++
			}
			return nil
		}, refuse), mqidem.Options{})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		for id, n := range effects {
			assert.Equal(t, n, 1, "effects of %s (all: %v)", id, effects)
		}
	})
}

// Under Refuse, a handler that calls Goexit leaves the outcome in doubt.
func TestRefuseGoexit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { runtime.Goexit(); return nil }), refuse), mqidem.Options{})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("one")
	})
}

// odd is a source whose deliveries are changed.
type odd struct {
	mqidem.Source
	change func(mqidem.Delivery) mqidem.Delivery
}

func (o odd) Receive(ctx context.Context) (mqidem.Delivery, error) {
	d, err := o.Source.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return o.change(d), nil
}

// stale is a delivery whose connection was lost while the consumer held it.
type stale struct {
	mqidem.Delivery
	deads *atomic.Int64
}

func (s stale) Dead(context.Context, mqidem.Reason) error {
	s.deads.Add(1)
	return mqidem.ErrStale
}
func (s stale) Ack(context.Context) error                  { return mqidem.ErrStale }
func (s stale) Retry(context.Context, time.Duration) error { return mqidem.ErrStale }

// A delivery whose connection is gone cannot become a dead letter. It is left and not held for
// ever.
func TestStaleIsLeft(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]func(w *world) mqidem.Handler{
		"no id": func(w *world) mqidem.Handler { return mqidem.Once(w.engine, "stock", w.handler(nil)) },
		"in doubt": func(w *world) mqidem.Handler {
			return mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { return errWork }), refuse)
		},
		"plain": func(w *world) mqidem.Handler {
			return w.handler(func(*mqidem.Message, int) error { return mqidem.Poison(errWork) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				id := "1"
				if name == "no id" {
					id = ""
				}
				w.publish(message(id, "one"))
				var deads atomic.Int64
				stop := w.start(func(ctx context.Context, s mqidem.Source) error {
					return mqidem.Consume(ctx, odd{s, func(d mqidem.Delivery) mqidem.Delivery { return stale{d, &deads} }}, h(w), w.options(mqidem.Options{}))
				})
				w.passTime(24 * time.Hour)
				w.mu.Lock()
				left, runs := len(w.outcomes), len(w.ran)
				w.mu.Unlock()
				_ = stop()
				assert.Equal(t, fmt.Sprint(left, " outcomes, Dead called ", deads.Load(), ", runs ", min(runs, 1)), fmt.Sprint("1 outcomes, Dead called 1, runs ", min(runs, 1)), "after a day (runs: %d)", runs)
			})
		})
	}
}

// A message in order that always fails becomes a dead letter, also if the handler keeps no record.
func TestOrderPlain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := message("1", "one")
		w.publish(m, message("2", "two"))
		stop := w.consume(w.handler(func(m *mqidem.Message, _ int) error {
			if m.ID == "1" {
				return errWork
			}
			return nil
		}), mqidem.Options{MaxAttempts: 2, Order: func(*mqidem.Message) string { return "a" }})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters (runs: %d)", len(w.ran))
	})
}

// A poison message does not run again while the dead-letter queue is unavailable. It becomes a dead
// letter as poison.
func TestPoisonDeadLetterFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var here atomic.Bool
		var kept []mqidem.Reason
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { return mqidem.Poison(errWork) })), mqidem.Options{DeadLetter: failUntil(&here, &kept)})
		w.passTime(time.Minute)
		here.Store(true)
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(kept), 1, "dead letters")
		assert.Equal(t, kept[0].Why+": "+kept[0].Error, "poison: no stock", "reason (runs: %d)", len(w.ran))
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.ErrorIs(t, w.outcomes[len(w.outcomes)-1].Err, errWork, "the error of the outcome")
	})
}

// A stopped consumer does not dead-letter the messages that it has cut off.
func TestStopMakesNoDeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		for range 2 { // two deployments
			stop := w.consume(mqidem.Once(w.engine, "stock", func(ctx context.Context, m *mqidem.Message) error {
				w.recordBegin(m)
				<-ctx.Done()
				return ctx.Err()
			}), mqidem.Options{Drain: time.Second, MaxAttempts: 2})
			w.passTime(time.Minute)
			_ = stop()
		}
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
	})
}

// Claims whose answers are lost run nothing, and are no tries.
func TestLostRepliesAreNoTries(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var gone atomic.Bool
		gone.Store(true)
		e := w.newEngine(storetest.NewFaulty(w.store, func(op string, _ int) storetest.Fault {
			if op == "acquire" && gone.Load() {
				return storetest.LoseReply
			}
			return 0
		}))
		stop := w.consume(mqidem.Once(e, "stock", w.handler(nil)), mqidem.Options{MaxAttempts: 3})
		w.passTime(10 * time.Minute)
		gone.Store(false)
		w.passTime(10 * time.Minute)
		assert.NoError(t, stop(), "consume")
		for _, p := range w.deadLetters() {
			t.Logf("dead letters: %+v", p.Reason)
		}
		w.expectRuns("one")
	})
}

// A message in doubt needs an operator, also after its record has expired.
func TestDoubtOutlivesItsRecord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { return errWork }), refuse), mqidem.Options{})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		p := w.deadLetters()
		assert.Equal(t, p[0].Reason.Why, mqidem.DeadInDoubt, "reason")
		w.passTime(60 * 24 * time.Hour)
		_, found, err := mqidem.RecordOf(t.Context(), w.engine, &p[0].Reason)
		t.Logf("record found: %v %v", found, err)
		assert.ErrorIs(t, mqidem.Redrive(t.Context(), w.engine, w.broker.DeadLetters("q"), p[0], &mqidem.RedriveOptions{By: "x"}), mqidem.ErrMayBeDone, "redrive")
	})
}

// A batch has its messages in the order in which they arrived.
func TestBatchOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("0", "zero"))
		s := w.broker.Open("q") // a consumer that dies at once
		_, err := s.Receive(t.Context())
		assert.NoError(t, err, "receive")
		assert.NoError(t, s.Close(), "close")
		w.publish(message("1", "one"), message("2", "two"))
		var order []string
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", func(_ context.Context, ms []*mqidem.Message) []error {
			for _, m := range ms {
				order = append(order, m.ID)
			}
			return nil
		}), mqidem.Options{})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, order, []string{"0", "1", "2"}, "order")
	})
}

// A finished batch is recorded at once. It does not wait until other messages are dead-lettered.
func TestBatchWindow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		b := &batches{w: w}
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", b.handler("3", func() error { return mqidem.Poison(errWork) })), mqidem.Options{
			DeadLetter: func(ctx context.Context, _ *mqidem.Message, _ mqidem.Reason) error {
				<-ctx.Done() // a broker under an alarm
				return ctx.Err()
			},
		})
		w.passTime(10 * time.Second)
		rec := w.record("points", "0")
		assert.Equal(t, rec.State, retrysafe.StateCompleted, "record of a message that was done 10 s ago")
		_ = stop
	})
}

// A message that kills its consumer takes no others with it, also if the broker counts no
// deliveries.
func TestKillerInBatchUncounted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		over := make(chan struct{})
		defer close(over)
		for range 8 {
			e, s := w.newEngine(w.store), w.broker.Open("q")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				h := mqidem.OnceBatch(e, "points", func(_ context.Context, ms []*mqidem.Message) []error {
					for _, m := range ms {
						if m.ID == "0" {
							<-over
						}
					}
					for _, m := range ms {
						w.recordBegin(m)
					}
					return nil
				})
				_ = mqidem.ConsumeBatch(ctx, odd{s, func(d mqidem.Delivery) mqidem.Delivery {
					d.Message().Deliveries = 1
					return d
				}}, h, w.options(mqidem.Options{MaxAttempts: 3}))
			}()
			w.passTime(time.Second)
			w.killEngine(e)
			assert.NoError(t, s.Close(), "close")
			cancel()
			w.passTime(time.Minute)
		}
		var ids []string
		for _, p := range w.deadLetters() {
			ids = append(ids, p.Message.ID+" "+p.Reason.Why)
		}
		assert.Equal(t, strings.Join(ids, ", "), "0 tries", "dead letters")
	})
}

// fakeTx is a database that stores nothing and calls commit to commit.
type fakeTx struct{ commit func() error }

func (f *fakeTx) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, int) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	if _, _, err := work(ctx, 1); err != nil {
		return retrysafe.Record{}, err
	}
	return retrysafe.Record{Key: r.Key, Owner: r.Owner, Attempt: 1}, f.commit()
}

// If the database refuses a message's transaction each time (a deferred constraint; a statement
// whose error the handler has dropped), the message is tried as often as others and becomes a dead
// letter.
func TestCommitRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		db := &fakeTx{func() error { return errors.New("violates foreign key constraint") }}
		stop := w.consume(mqidem.OnceTx(w.engine, db, "stock", func(_ context.Context, _ int, m *mqidem.Message) error {
			w.recordBegin(m)
			return nil
		}), mqidem.Options{MaxAttempts: 3})
		w.passTime(24 * time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters (runs: %d)", len(w.ran))
	})
}

// A database that refuses transactions for a while costs no tries.
func TestTxAwayIsNoTry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		s := w.broker.Open("q") // a consumer that dies at once
		_, err := s.Receive(t.Context())
		assert.NoError(t, err, "receive")
		assert.NoError(t, s.Close(), "close")
		var gone atomic.Bool
		gone.Store(true)
		db := &fakeTx{func() error {
			if gone.Load() {
				return fmt.Errorf("read only now: %w", retrysafe.ErrUnavailable)
			}
			return nil
		}}
		stop := w.consume(mqidem.OnceTx(w.engine, db, "stock", func(_ context.Context, _ int, m *mqidem.Message) error { return nil }), mqidem.Options{MaxAttempts: 3})
		w.passTime(time.Minute)
		gone.Store(false)
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
	})
}

// Work does not begin under an attempt whose lease is lost.
func TestLostIsNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		dead := 0
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", func(ctx context.Context, ms []*mqidem.Message) []error {
			if len(ms) > 1 {
				panic("nobody is to blame")
			}
			if ctx.Err() != nil {
				dead++
			}
			time.Sleep(2 * time.Minute) // each is slow, and well below MaxRun
			return []error{ctx.Err()}
		}), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, fmt.Sprint(dead, " begun with a dead context, ", len(w.deadLetters()), " dead letters"), "0 begun with a dead context, 0 dead letters", "innocents")
	})
}

// A last try whose lease is lost does not make a dead letter: another consumer may be doing the
// work.
func TestLeaseLostIsNoDeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		var gone atomic.Bool
		e := w.newEngine(storetest.NewFaulty(w.store, func(string, int) storetest.Fault {
			if gone.Load() {
				return storetest.LoseRequest
			}
			return 0
		}))
		stop := w.consume(mqidem.Once(e, "stock", func(ctx context.Context, m *mqidem.Message) error {
			if w.recordBegin(m) > 1 {
				return nil
			}
			gone.Store(true)
			<-ctx.Done()
			return context.Cause(ctx)
		}), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Minute)
		gone.Store(false)
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
	})
}

// If the handler of a message in order calls Goexit, the message is tried again in place.
func TestOrderGoexit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"), message("2", "two"))
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(m *mqidem.Message, n int) error {
			if m.ID == "1" && n == 1 {
				runtime.Goexit()
			}
			return nil
		})), mqidem.Options{Order: func(*mqidem.Message) string { return "a" }})
		w.passTime(24 * time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, strings.Join(w.ran, " "), "one one two", "runs")
	})
}

// A message in order that waits does not stop messages of other names.
func TestOrderStarves(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i := range 20 {
			m := message(fmt.Sprint("a", i), fmt.Sprint("a", i))
			m.Key = "a"
			w.publish(m)
		}
		m := message("b", "b")
		m.Key = "b"
		w.publish(m)
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(func(m *mqidem.Message, _ int) error {
			if m.ID == "a0" {
				return errWork
			}
			return nil
		})), mqidem.Options{MaxAttempts: -1, Order: func(m *mqidem.Message) string { return m.Key }})
		w.passTime(10 * time.Minute)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, w.ran[len(w.ran)-1], "a0", "last")
		n := 0
		for _, b := range w.ran {
			if b == "b" {
				n++
			}
		}
		assert.Equal(t, n, 1, "runs of b, which is in another lane")
	})
}

// A redriver on a wrong store loses nothing.
func TestRedriveOnAnotherStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		bad := true
		h := mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error {
			if bad {
				return errWork
			}
			return nil
		}))
		stop := w.consume(h, mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Minute)
		bad = false
		other := w.newEngine(memstore.New(nil)) // the store of another environment
		r, err := mqidem.NewRedriver(other, w.broker.DeadLetters("q"), &mqidem.RedriverOptions{After: -1})
		assert.NoError(t, err, "redriver")
		did, err := r.Once(t.Context())
		t.Logf("did %+v, error %v", did, err)
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		waiting, dead := w.broker.Stats("q")
		assert.True(t, len(w.ran) == 2 || waiting+dead == 1, "the message was worked on, or is still there: ran %v, waiting %d, dead %d", w.ran, waiting, dead)
	})
}

// The other messages of a batch keep their tries when the lease of one is lost.
func TestBatchOneLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		calls := 0
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", func(ctx context.Context, ms []*mqidem.Message) []error {
			if calls++; calls == 1 {
				rec := w.record("points", "3")
				err := w.engine.Layer("mq").Resolve(context.WithoutCancel(ctx), retrysafe.Key{Operation: "points", ID: "3"},
					retrysafe.Resolution{Fence: rec.Fence, Force: true, Outcome: retrysafe.Done, By: "a person"})
				assert.NoError(t, err, "resolve")
				<-ctx.Done()
				errs := make([]error, len(ms))
				for i := range errs {
					errs[i] = ctx.Err()
				}
				return errs
			}
			return nil
		}), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
	})
}

// givenBack is a delivery whose Dead fails once; after that the delivery counts as settled.
type givenBack struct {
	mqidem.Delivery
	deads atomic.Int64
}

func (g *givenBack) Dead(ctx context.Context, _ mqidem.Reason) error {
	if g.deads.Add(1) == 1 {
		return errors.Join(errors.New("the channel is under an alarm"), g.Retry(ctx, 0))
	}
	return mqidem.ErrSettled
}

// Deliveries that cannot be settled do not use up the consumer.
func TestSettledIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("", "one"), message("1", "good"))
		stop := w.start(func(ctx context.Context, s mqidem.Source) error {
			return mqidem.Consume(ctx, odd{s, func(d mqidem.Delivery) mqidem.Delivery {
				if d.Message().ID == "" && d.Message().Deliveries == 1 {
					return &givenBack{Delivery: d}
				}
				return d
			}}, mqidem.Once(w.engine, "stock", w.handler(nil)), w.options(mqidem.Options{Concurrency: 1}))
		})
		w.passTime(24 * time.Hour)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("good")
	})
}

// A batch handler without a record panics: the other messages do not become dead letters.
func TestPlainBatchPanic(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		stop := w.consumeBatches(func(_ context.Context, ms []*mqidem.Message) []error {
			for _, m := range ms {
				if m.ID == "3" {
					panic("bad")
				}
			}
			return nil
		}, mqidem.Options{MaxAttempts: 3})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters")
	})
}

// A failing handler around Once is tried as often as other work; then it makes a dead letter.
func TestAroundOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		calls := 0
		once := mqidem.Once(w.engine, "stock", w.handler(nil))
		stop := w.consume(func(ctx context.Context, m *mqidem.Message) error {
			calls++
			if err := once(ctx, m); err != nil {
				return err
			}
			return errWork
		}, mqidem.Options{MaxAttempts: 2})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters (calls: %d)", calls)
	})
}

// A redriver does not remove an entry with the same key and another reason.
func TestRedriverKeepsOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bad := w.handler(func(*mqidem.Message, int) error { return errWork })
		as := func(fingerprint string) mqidem.Handler {
			return mqidem.Once(w.engine, "stock", bad, retrysafe.WithFingerprint([]byte(fingerprint)))
		}
		w.publish(message("1", "one"))
		stop := w.consume(as("v1 of the consumer, padded to 32"), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.publish(message("1", "another content"))
		stop = w.consume(as("v2 of the consumer, padded to 32"), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		for _, p := range w.deadLetters() {
			t.Logf("dead letter %s: %s", p.Message.Body, p.Reason.Why)
		}
		r, err := mqidem.NewRedriver(w.engine, w.broker.DeadLetters("q"), &mqidem.RedriverOptions{After: -1})
		assert.NoError(t, err, "redriver")
		did, err := r.Once(t.Context())
		assert.NoError(t, err, "redrive")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters afterwards (%+v)", did)
	})
}

// A redelivered message in order whose transaction always fails becomes a dead letter when its
// tries are used up.
func TestOrderTx(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"), message("2", "two"))
		s := w.broker.Open("q") // a consumer that dies at once
		_, err := s.Receive(t.Context())
		assert.NoError(t, err, "receive")
		assert.NoError(t, s.Close(), "close")
		stop := w.consume(mqidem.OnceTx(w.engine, &fakeTx{func() error { return nil }}, "stock", func(_ context.Context, _ int, m *mqidem.Message) error {
			if w.recordBegin(m); m.ID == "1" {
				return errWork
			}
			return nil
		}), mqidem.Options{MaxAttempts: 3, Order: func(*mqidem.Message) string { return "a" }})
		w.passTime(time.Hour)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("one", "one", "one", "two")
		p := w.deadLetters()
		assert.Equal(t, len(p), 1, "dead letters")
		assert.Equal(t, p[0].Reason.Tries, 3, "tries")
	})
}
