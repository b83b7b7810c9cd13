package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	_ "modernc.org/sqlite"
)

func main() {
	listen, ctx := flag.String("listen", "localhost:8080", "address to listen on"), context.Background()
	flag.Parse()
	db := must(sql.Open("sqlite", "file:shop.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"))
	must(db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, item TEXT)"))
	store := must(sqlstore.New(db, sqlstore.SQLite, nil)) // keeps keys and answers in the same file
	check(store.Migrate(ctx))                             // creates its table
	// The caller, who has keys of their own. Ask your login here: this checks no password.
	user := func(r *http.Request) (string, error) { name, _, _ := r.BasicAuth(); return name, nil }
	idem := httpidem.New(retrysafe.New(store, nil), &httpidem.Options{Tenant: user, Key: httpidem.Required})
	http.Handle("POST /payments", idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge := must(db.ExecContext(r.Context(), "INSERT INTO payments (item) VALUES (?)", r.FormValue("item")))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d\n", must(charge.LastInsertId()))
	})))
	http.HandleFunc("GET /payments", func(w http.ResponseWriter, r *http.Request) {
		var n int
		check(db.QueryRowContext(r.Context(), "SELECT count(*) FROM payments").Scan(&n))
		fmt.Fprintf(w, "payments: %d\n", n)
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// check panics on an error. In the middle of a payment, that leaves its outcome in doubt.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
