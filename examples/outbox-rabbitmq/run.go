package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

const queue = "packing"

// runShop runs the three parts in one process. They could run in three: they share the database and
// RabbitMQ, and nothing else.
func runShop(ctx context.Context, listen, rabbitmq string, pause time.Duration) error {
	s, err := openShop(ctx)
	if err != nil {
		return err
	}
	s.pause = pause
	defer s.db.Close()
	options := &amqpidem.Options{Quorum: true}
	source, err := amqpidem.Open(ctx, rabbitmq, queue, options) // it declares the queue
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	publisher, err := amqpidem.NewPublisher(ctx, rabbitmq, nil)
	if err != nil {
		return err
	}
	defer func() { _ = publisher.Close() }()
	if s.relay, err = outbox.NewRelay(s.box, publisher, &outbox.RelayOptions{Lease: 2 * time.Second}); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var parts sync.WaitGroup
	errs := make([]error, 3)
	for i, part := range []func() error{
		func() error { return listenAndServe(ctx, listen, s.newHandler()) },
		func() error { return s.relay.Run(ctx) },
		func() error { return s.consumeOrders(ctx, source) },
	} {
		parts.Go(func() {
			defer stop() // the program ends when one part does
			if err := part(); !errors.Is(err, context.Canceled) {
				errs[i] = err
			}
		})
	}
	parts.Wait()
	return errors.Join(errors.Join(errs...), s.engine.Shutdown(context.WithoutCancel(ctx)))
}

// consumeOrders packs what was ordered. The record of a message commits together with the parcel,
// so that a message that RabbitMQ delivers again makes no second one.
func (s *shop) consumeOrders(ctx context.Context, source mqidem.Source) error {
	pack := mqidem.OnceTx(s.engine, s.store, "packing", func(ctx context.Context, tx *sql.Tx, m *mqidem.Message) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO parcels (order_id) VALUES (?)", m.ID); err != nil {
			return err
		}
		if s.pause > 0 {
			log.Printf("packing for %v: kill me", s.pause)
		}
		select { // to be killed here, before the commit and the ack
		case <-time.After(s.pause):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return mqidem.Consume(ctx, source, pack, &mqidem.Options{
		MaxAttempts: 5, Backoff: mqidem.Fixed(time.Second),
		OnOutcome: func(_ context.Context, o mqidem.Outcome) { log.Printf("message: %s", o.What) },
	})
}
