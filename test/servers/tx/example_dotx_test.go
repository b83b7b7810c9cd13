package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// An order and the record of its key commit in one transaction. A duplicate gets the first answer,
// and after any crash either both exist or neither.
func ExampleDoTx() {
	dir, err := os.MkdirTemp("", "retrysafe")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)"); err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: []byte("the same on all processes")})
	defer engine.Shutdown(ctx)

	order := func(key, customer string) {
		k := retrysafe.Key{Operation: "order", ID: key}
		res, err := retrysafe.DoTx(ctx, engine, store, k, func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
			err = tx.QueryRowContext(ctx, "INSERT INTO orders (customer) VALUES (?) RETURNING id", customer).Scan(&id)
			return id, err
		}, retrysafe.WithPayload(customer))
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		fmt.Printf("order %d, replayed: %v\n", res.Value, res.Replayed)
	}
	order("5f0c", "Ada")
	order("5f0c", "Ada") // the client did not see the answer and retries
	order("77aa", "Bob")

	var orders int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders); err != nil {
		log.Fatal(err)
	}
	fmt.Println("orders in the table:", orders)
	// Output:
	// order 1, replayed: false
	// order 1, replayed: true
	// order 2, replayed: false
	// orders in the table: 2
}
