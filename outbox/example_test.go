package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// The message is sent if and only if the order is committed.
func ExampleOutbox_Add() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(db, outbox.PostgreSQL, nil) // once, at start
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, sku) VALUES ($1, $2)", 7, "tea"); err != nil {
		log.Fatal(err)
	}
	m := outbox.Message{Topic: "orders", Key: "ann", Payload: []byte(`{"id":7}`)}
	if err := box.Add(ctx, dbtx.SQL(tx, outbox.PostgreSQL), m); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tx.Commit())
}

// A relay publishes what is committed. Run it in one or more processes.
func ExampleRelay_Run() {
	run := func(ctx context.Context, box *outbox.Outbox) error {
		publisher := outbox.OneByOne(func(_ context.Context, m outbox.Outgoing) error {
			fmt.Println("send", m.Topic, m.ID) // by your own client
			return nil
		})
		relay, err := outbox.NewRelay(box, publisher, nil)
		if err != nil {
			return err
		}
		return relay.Run(ctx) // until ctx ends
	}
	_ = run
}
