package guards_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// A payment takes only what is there. That guards the balance, but does not detect duplicates: the
// key in the same transaction does.
func Example_guardCondition() {
	_, engine, store, end := exampleShop("CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)", "INSERT INTO account VALUES (1, 100)")
	defer end()
	account := &guard.Condition{Table: "account", ID: "id", Column: "amount"}

	pay := func(key string, cents int64) {
		k := retrysafe.Key{Operation: "pay", ID: key}
		res, err := retrysafe.DoTx(context.Background(), engine, store, k, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "paid", account.Subtract(ctx, dbtx.SQL(tx, dbtx.SQLite), 1, cents)
		}, retrysafe.WithPayload(cents))
		if err != nil {
			fmt.Println(key, describeOutcome(0, err))
			return
		}
		fmt.Printf("%s %s, replayed: %v\n", key, res.Value, res.Replayed)
	}
	pay("5f0c", 70)
	pay("5f0c", 70)
	pay("77aa", 70)
	// Output:
	// 5f0c paid, replayed: false
	// 5f0c paid, replayed: true
	// 77aa guard: the condition does not hold
}

// A decision that one statement cannot make is made under a lock: read, lock, read again, write,
// with the key in the same transaction.
func Example_guardRowLock() {
	_, engine, store, end := exampleShop("CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, closed INTEGER NOT NULL)",
		"INSERT INTO account VALUES (1, 100, 0)")
	defer end()
	account := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount", "closed"}}

	pay := func(key string, cents int64) {
		k := retrysafe.Key{Operation: "pay", ID: key}
		res, err := retrysafe.DoTx(context.Background(), engine, store, k, func(ctx context.Context, tx *sql.Tx) (left int64, err error) {
			var amount int64
			var closed bool
			err = account.Lock(ctx, dbtx.SQL(tx, dbtx.SQLite), 1, func() error {
				if closed || amount < cents {
					return guard.ErrRefused
				}
				return nil
			}, &amount, &closed)
			if err != nil {
				return 0, err
			}
			left = amount - cents
			_, err = tx.ExecContext(ctx, "UPDATE account SET amount = ? WHERE id = 1", left)
			return left, err
		}, retrysafe.WithPayload(cents))
		if err != nil {
			fmt.Println(key, describeOutcome(0, err))
			return
		}
		fmt.Printf("%s: %d are left, replayed: %v\n", key, res.Value, res.Replayed)
	}
	pay("5f0c", 70)
	pay("5f0c", 70)
	pay("77aa", 70)
	// Output:
	// 5f0c: 30 are left, replayed: false
	// 5f0c: 30 are left, replayed: true
	// 77aa guard: the condition does not hold
}

// The first points of a member insert the row, later ones add to it, also if two requests come at
// once. The key counts each request once.
func Example_guardUpsert() {
	db, engine, store, end := exampleShop("CREATE TABLE points (member TEXT PRIMARY KEY, total INTEGER NOT NULL)")
	defer end()
	points := &guard.Upsert{Table: "points", Columns: []string{"member"}}

	add := func(key string) {
		k := retrysafe.Key{Operation: "points", ID: key}
		_, err := retrysafe.DoTx(context.Background(), engine, store, k, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "added", points.Put(ctx, dbtx.SQL(tx, dbtx.SQLite), guard.Set{"member": "ann"}, guard.Set{"total": 20}, guard.Set{"total": guard.Add(20)})
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	add("5f0c")
	add("5f0c") // a duplicate
	add("77aa")
	var total int
	if err := db.QueryRow("SELECT total FROM points").Scan(&total); err != nil {
		log.Fatal(err)
	}
	fmt.Println(total)
	// Output: 40
}

// A holder was paused while its lease expired. When it wakes, the row refuses its write. Fences
// come from the attempt of Do, or from a lock.
func Example_guardFence() {
	db, _, _, end := exampleShop("CREATE TABLE job (id INTEGER PRIMARY KEY, fence INTEGER, report TEXT)", "INSERT INTO job VALUES (1, NULL, NULL)")
	defer end()
	job := &guard.Fence{Table: "job", ID: "id", Column: "fence"}

	write := func(fence retrysafe.Fence, report string) {
		fmt.Println(report+":", describeOutcome(inTx(db, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			if err := job.Check(ctx, tx, 1, fence); err != nil {
				return 0, err
			}
			_, err := tx.Exec(ctx, "UPDATE job SET report = ? WHERE id = 1", report)
			return guard.Applied, err
		})))
	}
	write(33, "first holder")
	write(34, "second holder, after the lease of the first")
	write(33, "first holder, which was paused")
	// Output:
	// first holder: applied
	// second holder, after the lease of the first: applied
	// first holder, which was paused: guard: the holder is out of date
}
