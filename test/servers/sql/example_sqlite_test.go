package sql_test

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

// A store on a SQLite file: stored answers outlive the process.
func Example_sqliteStore() {
	dir, err := os.MkdirTemp("", "retrysafe")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	key := retrysafe.Key{Operation: "charge", ID: "invoice-17"}

	process := func() { // each opens the file again
		db, err := sql.Open("sqlite", filepath.Join(dir, "app.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
		store, err := sqlstore.New(db, sqlstore.SQLite, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := store.Migrate(ctx); err != nil {
			log.Fatal(err) // the error says what is wrong with the file
		}
		engine := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Secret: []byte("the same on all processes")})
		defer engine.Shutdown(ctx)

		res, err := retrysafe.Do(ctx, engine, key, func(context.Context) (string, error) {
			fmt.Println("charging the card")
			return "receipt 4711", nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Value)
	}
	process()
	process()
	// Output:
	// charging the card
	// receipt 4711
	// receipt 4711
}
