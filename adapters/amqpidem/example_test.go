package amqpidem_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A consumer that does the work of each message once. Another consumer of the same messages needs
// its own queue and name.
func Example() {
	ctx := context.Background()
	// in production a store that all processes of the consumer share
	engine := retrysafe.New(memstore.New(nil), nil)
	src, err := amqpidem.Open(ctx, "amqp://127.0.0.1", "stock", &amqpidem.Options{Quorum: true, Exchange: "orders", Bindings: []string{"order.placed"}})
	if err != nil {
		log.Fatal(err)
	}
	defer src.Close()
	reserve := mqidem.Once(engine, "stock", func(_ context.Context, m *mqidem.Message) error {
		var order struct{ SKU string }
		if err := json.Unmarshal(m.Body, &order); err != nil {
			return mqidem.Poison(err) // a dead letter at once
		}
		log.Println("one less of", order.SKU)
		return nil
	})
	if err := mqidem.Consume(ctx, src, reserve, &mqidem.Options{MaxAttempts: 5}); err != nil {
		log.Fatal(err)
	}
}

// A relay publishes the messages of the outbox. A message that reaches no queue, or that the broker
// has not confirmed, stays in the outbox.
func ExampleNewPublisher() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(db, outbox.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := amqpidem.NewPublisher(ctx, "amqp://127.0.0.1", &amqpidem.PublisherOptions{Exchange: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Close()
	relay, err := outbox.NewRelay(box, publisher, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(relay.Run(ctx))
}

// A rule redrives messages that have been dead long enough. Their records are reopened first.
func ExampleOpenDeadLetters() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), nil) // the consumer's store
	deadLetters, err := amqpidem.OpenDeadLetters(ctx, "amqp://127.0.0.1", "stock", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer deadLetters.Close()
	err = deadLetters.Walk(ctx, func(ctx context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		if time.Since(p.Reason.At) < time.Hour {
			return mqidem.Keep, nil
		}
		return mqidem.Remove, mqidem.Redrive(ctx, engine, deadLetters, p, &mqidem.RedriveOptions{By: "nightly"})
	})
	if err != nil {
		log.Fatal(err)
	}
}
