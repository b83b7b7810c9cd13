package pgxidem_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// The work gets a pgx.Tx, and the record commits with it.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := sqlstore.New(stdlib.OpenDBFromPool(pool), sqlstore.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})
	defer engine.Shutdown(ctx)

	key := retrysafe.Key{Tenant: "ann", Operation: "transfer", ID: "7f3c"}
	got, err := retrysafe.DoTx(ctx, engine, pgxidem.New(store, pool), key, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, "UPDATE account SET balance = balance - 10 WHERE id = $1", 42)
		return tag.RowsAffected(), err
	})
	fmt.Println(got.Value, got.Replayed, err)
}
