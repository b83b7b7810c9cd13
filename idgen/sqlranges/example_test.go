package sqlranges_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
)

func ExampleNew() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	ranges, err := sqlranges.New(db, sqlranges.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := ranges.Migrate(ctx); err != nil { // or run sqlranges.SchemaSQL by your own tool
		log.Fatal(err)
	}
	if _, err := ranges.Create(ctx, "order", 1, 1000); err != nil {
		// an existing tag stays as it is
		log.Fatal(err)
	}
	orders, err := idgen.NewSegment(ranges, "order", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close()
	fmt.Println(orders.Next(ctx))
}
