package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// An order and the message about it commit together. A relay publishes committed messages, and
// nothing else.
func Example_outbox() {
	dir, err := os.MkdirTemp("", "retrysafe")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)"); err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(db, outbox.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	published := make(chan struct{}, 10)
	relay, err := outbox.NewRelay(box, outbox.OneByOne(func(_ context.Context, m outbox.Outgoing) error {
		// A broker's client would be here; returning nil confirms the message.
		fmt.Printf("%s: %s %s\n", m.Topic, m.ID, m.Payload)
		published <- struct{}{}
		return nil
	}), nil)
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(running) }()

	order := func(customer string, inStock bool) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var id int64
		if err := tx.QueryRowContext(ctx, "INSERT INTO orders (customer) VALUES (?) RETURNING id", customer).Scan(&id); err != nil {
			return err
		}
		err = box.Add(ctx, dbtx.SQL(tx, outbox.SQLite), outbox.Message{
			ID: fmt.Sprintf("order-%d-placed", id), Topic: "orders", Key: customer, ContentType: "text/plain", Payload: []byte(customer + " has ordered"),
		})
		if err != nil {
			return err
		}
		if !inStock {
			return nil // rolled back, together with the message
		}
		return tx.Commit()
	}
	for customer, inStock := range map[string]bool{"Ada": true, "Bob": false} {
		if err := order(customer, inStock); err != nil {
			log.Fatal(err)
		}
	}
	relay.Wake()
	<-published
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	s, err := box.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("pending:", s.Pending)
	// Output:
	// orders: order-1-placed Ada has ordered
	// pending: 0
}
