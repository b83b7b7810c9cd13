package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// The record and the work commit in one transaction, so the effect happens exactly once.
func ExampleStore_RunTx() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil { // or run sqlstore.SchemaSQL by your own tool
		log.Fatal(err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})
	defer engine.Shutdown(ctx)

	key := retrysafe.Key{Tenant: "ann", Operation: "transfer", ID: "7f3c"}
	got, err := retrysafe.DoTx(ctx, engine, store, key, func(ctx context.Context, tx *sql.Tx) (int64, error) {
		res, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = $1", 42)
		if err != nil {
			return 0, err
		}
		return res.RowsAffected()
	})
	fmt.Println(got.Value, got.Replayed, err)
}
