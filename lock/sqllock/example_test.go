package sqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/sqllock"
)

func ExampleNewTable() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	table, err := sqllock.NewTable(db, sqllock.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := table.Migrate(ctx); err != nil { // or run sqllock.SchemaSQL by your own tool
		log.Fatal(err)
	}
	locks := lock.New(table, nil)
	defer locks.Shutdown(ctx)
	err = locks.With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
		fmt.Println("write with fence", held.Fence())
		return ctx.Err()
	})
	fmt.Println(err)
}
