package dbtx_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// A failed statement is undone, and the transaction continues.
func ExampleSavepoint() {
	try := func(ctx context.Context, sqlTx *sql.Tx) {
		tx := dbtx.SQL(sqlTx, dbtx.PostgreSQL)
		err := dbtx.Savepoint(ctx, tx, func(ctx context.Context) error {
			_, err := tx.Exec(ctx, "INSERT INTO coupon (code) VALUES ($1)", "tea-10")
			return err
		})
		if err != nil {
			fmt.Println("no coupon; the order goes on:", err)
		}
	}
	_ = try
}
