package mqidem_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// publish sends each message twice, as a producer that has seen no confirmation.
func publish(b *memqueue.Broker, ids ...string) {
	for range 2 {
		for _, id := range ids {
			m := outbox.Message{ID: id, Topic: "orders", Payload: []byte(`{"sku":"tea"}`)}
			if err := b.Publish(context.Background(), []outbox.Outgoing{{Message: m}})[0]; err != nil {
				log.Fatal(err)
			}
		}
	}
}

// A message that is delivered twice is worked on once, and both copies are acked.
func ExampleConsume() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, broker := retrysafe.New(memstore.New(nil), nil), memqueue.New()
	publish(broker, "order-1", "order-2")
	type order struct{ SKU string }
	stock := mqidem.Once(engine, "stock", mqidem.JSON(func(ctx context.Context, o order, m *mqidem.Message) error {
		fmt.Println("one less of", o.SKU, "for", m.ID)
		return nil
	}))
	var acked atomic.Int64
	err := mqidem.Consume(ctx, broker.Open("orders"), stock, &mqidem.Options{
		MaxAttempts: 5, Backoff: mqidem.Fixed(3 * time.Second), Concurrency: 1,
		OnOutcome: func(context.Context, mqidem.Outcome) {
			if acked.Add(1) == 4 {
				cancel()
			}
		},
	})
	fmt.Println(acked.Load(), "messages acked,", err)
	// Output:
	// one less of tea for order-1
	// one less of tea for order-2
	// 4 messages acked, <nil>
}

// A source reports a message that its broker has dropped: no handler gets it, and it is counted.
// HoldsFor says how long the broker keeps messages, if the source cannot know it.
func ExampleLost() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine := retrysafe.New(memstore.New(nil), nil)
	stock := mqidem.Once(engine, "stock", func(context.Context, *mqidem.Message) error { return nil })
	err := mqidem.Consume(ctx, dropping{}, stock, &mqidem.Options{
		HoldsFor: 12 * time.Hour, // a job trims the stream; records are kept for 24 h by default
		Logger:   slog.New(slog.DiscardHandler),
		OnOutcome: func(_ context.Context, o mqidem.Outcome) {
			fmt.Println(o.What, "of", o.Message.Source, "because", o.Err)
			cancel()
		},
	})
	fmt.Println(err)
	// Output:
	// lost of orders because the stream was too short
	// <nil>
}

// dropping is a source whose broker has dropped a message.
type dropping struct{}

func (dropping) Receive(ctx context.Context) (mqidem.Delivery, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return dropped{}, nil
}

type dropped struct{}

func (dropped) Message() *mqidem.Message { return &mqidem.Message{Source: "orders"} }

func (dropped) Lost() error                                { return errors.New("the stream was too short") }
func (dropped) Ack(context.Context) error                  { return nil }
func (dropped) Retry(context.Context, time.Duration) error { return nil }
func (dropped) Dead(context.Context, mqidem.Reason) error  { return nil }

// A batch is claimed and completed together. Each message fails separately.
func ExampleConsumeBatch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, broker := retrysafe.New(memstore.New(nil), nil), memqueue.New()
	publish(broker, "order-1", "order-2", "order-3")
	points := mqidem.OnceBatch(engine, "points", func(ctx context.Context, ms []*mqidem.Message) []error {
		fmt.Println("points for", len(ms), "orders")
		return make([]error, len(ms)) // one error for each; nil means that all are done
	})
	var acked atomic.Int64
	err := mqidem.ConsumeBatch(ctx, broker.Open("orders"), points, &mqidem.Options{Batch: 3, OnOutcome: func(context.Context, mqidem.Outcome) {
		if acked.Add(1) == 6 {
			cancel()
		}
	}})
	fmt.Println(acked.Load(), "messages acked,", err)
	// Output:
	// points for 3 orders
	// 6 messages acked, <nil>
}

// A message that used up its tries is a dead letter. When the cause has passed, a Redriver redrives
// it, and it runs.
func ExampleRedriver() {
	ctx := context.Background()
	engine, broker := retrysafe.New(memstore.New(nil), nil), memqueue.New()
	if err := broker.Publish(ctx, []outbox.Outgoing{{Message: outbox.Message{ID: "order-1", Topic: "orders"}}})[0]; err != nil {
		log.Fatal(err)
	}
	pieces := 0
	stock := mqidem.Once(engine, "stock", func(context.Context, *mqidem.Message) error {
		if pieces == 0 {
			return errors.New("no stock")
		}
		pieces--
		return nil
	})
	work := func() {
		one, cancel := context.WithCancel(ctx)
		defer cancel()
		_ = mqidem.Consume(one, broker.Open("orders"), stock, &mqidem.Options{
			MaxAttempts: 1, Logger: slog.New(slog.DiscardHandler), OnOutcome: func(_ context.Context, o mqidem.Outcome) {
				fmt.Println(o.What)
				cancel()
			},
		})
	}
	work()
	pieces = 1
	redriver, err := mqidem.NewRedriver(engine, broker.DeadLetters("orders"), &mqidem.RedriverOptions{After: -1})
	if err != nil {
		log.Fatal(err)
	}
	did, err := redriver.Once(ctx)
	fmt.Println(did.Sent, "put back,", err)
	work()
	// Output:
	// dead
	// 1 put back, <nil>
	// done
}
