package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// account guards the rows of a table account (id, points, version, last_key).
var account = guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}

// A client sends the version that it has seen. A lost race is not written, and a duplicate of this
// request is not written twice.
func ExampleVersion_Update() {
	addPoints := func(ctx context.Context, db *sql.DB, id, version int64, key retrysafe.Key) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		out, err := account.Update(ctx, dbtx.SQL(tx, dbtx.PostgreSQL), id, version, key, guard.Set{"points": guard.Add(20)})
		switch {
		case errors.Is(err, guard.ErrStale):
			return errors.New("the account has changed; read it again")
		case err != nil:
			return err
		case out == guard.AlreadyApplied:
			return nil // an earlier copy of this request has written
		}
		return tx.Commit()
	}
	_ = addPoints
}

// A program that inserts by itself learns which index refused the row.
func ExampleDuplicateKey() {
	// SQLite's
	err := fmt.Errorf("insert the order: %w", errors.New("UNIQUE constraint failed: orders.number"))
	d, ok := guard.DuplicateKey(err)
	fmt.Println(ok, d.Table, d.Columns)
	_, ok = guard.DuplicateKey(errors.New("disk I/O error"))
	fmt.Println(ok)
	// Output:
	// true orders [number]
	// false
}

// A machine whose rows can come back to a state has to store the key of the last move: a late retry
// would move such a row again.
func ExampleNewMachine() {
	moves := map[string][]string{"new": {"paid"}, "paid": {"shipped"}}
	_, err := guard.NewMachine("orders", "id", "state", moves, nil)
	fmt.Println("without a way back:", err)

	moves["paid"] = append(moves["paid"], "new") // a payment that failed later
	_, err = guard.NewMachine("orders", "id", "state", moves, nil)
	fmt.Println("with a way back is refused:", err != nil)
	_, err = guard.NewMachine("orders", "id", "state", moves, &guard.MachineOptions{LastKey: "last_key"})
	fmt.Println("with LastKey:", err)
	// Output:
	// without a way back: <nil>
	// with a way back is refused: true
	// with LastKey: <nil>
}
