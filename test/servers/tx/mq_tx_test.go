package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// mqShop is a consumer of orders whose effect is a row.
type mqShop struct {
	*shops.Shop
	broker   *memqueue.Broker
	outcomes chan mqidem.Outcome
}

// eachMQShop runs a test on each database.
func eachMQShop(t *testing.T, f func(*testing.T, *mqShop)) {
	t.Helper()
	run := func(t *testing.T, s *shops.Shop) {
		t.Helper()
		f(t, &mqShop{s, memqueue.New(), make(chan mqidem.Outcome, 1000)})
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		run(t, shops.NewFile(t))
	})
	shops.EachServer(t, func(t *testing.T, s shops.Database) {
		t.Helper()
		run(t, s.Shop(t))
	})
}

func (s *mqShop) publish(t *testing.T, id string, copies int) {
	t.Helper()
	for range copies {
		errs := s.broker.Publish(t.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: id, Topic: "q", Payload: []byte(id)}}})
		assert.NoError(t, errs[0], "publish")
	}
}

// insertHandler inserts an order, and then returns the error of fail.
func (s *mqShop) insertHandler(fail func(*mqidem.Message) error) mqidem.Handler {
	return mqidem.OnceTx(s.Engine, s.Store, "order", func(ctx context.Context, tx *sql.Tx, m *mqidem.Message) error {
		if _, err := shops.Insert(ctx, tx, m.ID); err != nil {
			return err
		}
		return fail(m)
	})
}

// consume runs a consumer until the test ends.
func (s *mqShop) consume(t *testing.T, h mqidem.Handler, tries int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	source, ended := s.broker.Open("q"), make(chan error, 1)
	go func() {
		ended <- mqidem.Consume(ctx, source, h, &mqidem.Options{
			MaxAttempts: tries, Backoff: mqidem.Fixed(10 * time.Millisecond), Logger: slog.New(slog.DiscardHandler),
			OnOutcome: func(_ context.Context, o mqidem.Outcome) { s.outcomes <- o },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := waits.Soon(t, ended, "the end of the consumer"); err != nil {
			t.Errorf("consume: %v", err)
		}
		_ = source.Close()
	})
}

// awaitOutcome waits for an outcome, and returns the outcomes before it.
func (s *mqShop) awaitOutcome(t *testing.T, what string) (last mqidem.Outcome, before []string) {
	t.Helper()
	for {
		o := waits.Soon(t, s.outcomes, what)
		if o.What == what {
			return o, before
		}
		before = append(before, o.What)
	}
}

func (s *mqShop) deadLetters(t *testing.T) (all []*mqidem.DeadLetter) {
	t.Helper()
	err := s.broker.DeadLetters("q").Walk(t.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		all = append(all, p)
		return mqidem.Keep, nil
	})
	assert.NoError(t, err, "walk")
	return all
}

func noFault(*mqidem.Message) error { return nil }

// Copies of a message have one effect, and make one record.
func TestOnceTxCopies(t *testing.T) {
	t.Parallel()
	eachMQShop(t, func(t *testing.T, s *mqShop) {
		s.publish(t, "ada", 5)
		s.consume(t, s.insertHandler(noFault), 5)
		for range 4 {
			// those that met an open transaction were redelivered
			s.awaitOutcome(t, mqidem.OutcomeDuplicate)
		}
		assert.Equal(t, s.Orders(t, "ada"), 1, "orders")
		rec := s.Record(t, "ada")
		assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
		assert.Equal(t, sqltest.Count(t, s.DB, "retrysafe_records"), 1, "records")
	})
}

// A failed try leaves only its count. The last one sends the message to the dead-letter queue, and
// the message runs once when it is redriven.
func TestOnceTxTries(t *testing.T) {
	t.Parallel()
	errStock := errors.New("no stock")
	for name, fail := range map[string]func(*mqidem.Message) error{
		"error": func(*mqidem.Message) error { return errStock },
		"panic": func(*mqidem.Message) error { panic("no stock") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMQShop(t, func(t *testing.T, s *mqShop) {
				s.publish(t, "bob", 1)
				well := make(chan struct{})
				s.consume(t, s.insertHandler(func(m *mqidem.Message) error {
					select {
					case <-well:
						return nil
					default:
						return fail(m)
					}
				}), 3)
				last, before := s.awaitOutcome(t, mqidem.OutcomeDead)
				assert.Equal(t, before, []string{mqidem.OutcomeAgain, mqidem.OutcomeAgain}, "what came before")
				assert.Equal(t, last.Try, 3, "the last try")
				assert.Equal(t, s.Orders(t, "bob"), 0, "orders")
				assert.Equal(t, s.Record(t, "bob").State, retrysafe.StateFailed, "state")
				p := s.deadLetters(t)
				assert.Equal(t, len(p), 1, "dead letters")
				assert.Equal(t, p[0].Reason.Tries, 3, "tries")

				s.publish(t, "bob", 1) // a copy runs nothing
				s.awaitOutcome(t, mqidem.OutcomeDuplicate)
				close(well)
				assert.NoError(t, mqidem.Redrive(t.Context(), s.Engine, s.broker.DeadLetters("q"), p[0], &mqidem.RedriveOptions{By: "test"}), "redrive")
				done, before := s.awaitOutcome(t, mqidem.OutcomeDone)
				assert.Equal(t, len(before), 0, "what came before")
				assert.Equal(t, done.Message.Header(mqidem.HeaderRedrives), "1", "redrives")
				assert.Equal(t, s.Orders(t, "bob"), 1, "orders")
			})
		})
	}
}

// A message that can never succeed is dead-lettered at once, and has no effect.
func TestOnceTxPoison(t *testing.T) {
	t.Parallel()
	eachMQShop(t, func(t *testing.T, s *mqShop) {
		s.publish(t, "eve", 2)
		s.publish(t, "", 1)
		s.consume(t, s.insertHandler(func(*mqidem.Message) error { return mqidem.Poison(errors.New("no such article")) }), 5)
		s.awaitOutcome(t, mqidem.OutcomeDead)
		s.awaitOutcome(t, mqidem.OutcomeDead)
		s.awaitOutcome(t, mqidem.OutcomeDuplicate)
		assert.Equal(t, s.Orders(t, "eve"), 0, "orders")
		why := map[string]int{}
		for _, p := range s.deadLetters(t) {
			why[p.Reason.Why]++
		}
		assert.Equal(t, why, map[string]int{mqidem.DeadPoison: 1, mqidem.DeadNoID: 1}, "dead letters")
	})
}

// A message whose first consumer still works is redelivered later, also if the broker says that it
// was delivered before. No try is counted, and there is one effect.
func TestOnceTxInProgress(t *testing.T) {
	t.Parallel()
	eachMQShop(t, func(t *testing.T, s *mqShop) {
		began, goOn := make(chan struct{}, 2), make(chan struct{})
		h := s.insertHandler(func(*mqidem.Message) error {
			began <- struct{}{}
			<-goOn
			return nil
		})
		first := make(chan error, 1)
		go func() { first <- h(context.Background(), &mqidem.Message{ID: "ada", Deliveries: 1}) }()
		waits.Soon(t, began, "the first consumer")
		for _, deliveries := range []int{1, 2} {
			err := h(t.Context(), &mqidem.Message{ID: "ada", Deliveries: deliveries})
			assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a delivery with count %d meanwhile", deliveries)
		}
		close(goOn)
		assert.NoError(t, waits.Soon(t, first, "the first consumer"), "the first consumer")
		assert.NoError(t, h(t.Context(), &mqidem.Message{ID: "ada", Deliveries: 2}), "a repeat")
		assert.Equal(t, s.Orders(t, "ada"), 1, "orders")
		assert.Equal(t, len(began), 0, "runs behind the first")
	})
}

// A consumer that dies while it counts a try leaves no doubt: nothing runs under such an attempt.
func TestOnceTxDeathWhileCounting(t *testing.T) {
	t.Parallel()
	eachMQShop(t, func(t *testing.T, s *mqShop) {
		dead := retrysafe.New(s.Store, &retrysafe.Options{Namespace: "app", Sweep: -1, Secret: []byte("0123456789abcdef")})
		lease := 200 * time.Millisecond
		begin := func() error {
			_, _, err := dead.Layer("tx").Begin(t.Context(), retrysafe.Key{Operation: "order", ID: "ada"},
				retrysafe.WithPolicy(retrysafe.Policy{Lease: lease, OnDoubt: retrysafe.Reexecute}))
			return err
		}
		err := begin()
		for ; errors.Is(err, retrysafe.ErrUnavailable) && lease < time.Minute; err = begin() {
			// A busy machine answers after such a lease.
			lease *= 2
		}
		assert.NoError(t, err, "begin")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_ = dead.Shutdown(gone)
		s.publish(t, "ada", 1)
		s.consume(t, s.insertHandler(noFault), 5)
		s.awaitOutcome(t, mqidem.OutcomeDone)
		assert.Equal(t, s.Orders(t, "ada"), 1, "orders")
	})
}

// A duplicate that comes from another queue is not run, and a warning names both. A record of
// version 0.1.0 does not say where its message came from.
func TestOnceTxOtherSource(t *testing.T) {
	t.Parallel()
	eachMQShop(t, func(t *testing.T, s *mqShop) {
		var log teststores.Log
		key := retrysafe.Key{Operation: "order", ID: retrysafe.KeyPart("old")}
		_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, key, func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
			_, err := shops.Insert(ctx, tx, "old")
			return struct{}{}, err
		})
		assert.NoError(t, err, "the record of an earlier version")
		h := s.insertHandler(noFault)
		for _, queue := range []string{"orders", "payments"} {
			ctx, cancel := context.WithCancel(t.Context())
			for _, id := range []string{"old", "new"} {
				errs := s.broker.Publish(ctx, []outbox.Outgoing{{Message: outbox.Message{ID: id, Topic: queue, Payload: []byte(id)}}})
				assert.NoError(t, errs[0], "publish")
			}
			source, n := s.broker.Open(queue), 0
			err := mqidem.Consume(ctx, source, h, &mqidem.Options{Concurrency: 1, Logger: log.Logger(), OnOutcome: func(context.Context, mqidem.Outcome) {
				if n++; n == 2 {
					cancel()
				}
			}})
			cancel()
			assert.NoError(t, errors.Join(err, source.Close()), "consume")
			if queue == "orders" {
				assert.Equal(t, strings.Count(log.String(), "from another source"), 0, "the log: %s", log.String())
			}
		}
		assert.Equal(t, strings.Count(log.String(), "from another source"), 1, "the log: %s", log.String())
		assert.Contains(t, log.String(), "source=payments source_of_the_first=orders", "the log")
		assert.Equal(t, s.Orders(t, "old")+s.Orders(t, "new"), 2, "orders")
	})
}
