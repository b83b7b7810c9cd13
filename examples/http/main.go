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
	"github.com/retrysafe/retrysafe/sqlstore"
	_ "modernc.org/sqlite"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	flag.Parse()
	ctx := context.Background()
	db := must(sql.Open("sqlite", "file:shop.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"))
	must(db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, item TEXT)"))
	store := must(sqlstore.New(db, sqlstore.SQLite, nil)) // keeps keys and answers in the same file
	must(store, store.Migrate(ctx))

	// Names the caller: "" is anonymous, an error refuses. Add your login: no password is checked.
	user := func(r *http.Request) (string, error) { name, _, _ := r.BasicAuth(); return name, nil }
	idem := httpidem.New(retrysafe.New(store, nil), &httpidem.Options{Tenant: user, Key: httpidem.Required})
	http.Handle("POST /payments", idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge := must(db.ExecContext(r.Context(), "INSERT INTO payments (item) VALUES (?)", r.FormValue("item")))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d\n", must(charge.LastInsertId()))
	})))
	http.HandleFunc("GET /payments", func(w http.ResponseWriter, r *http.Request) {
		var n int
		err := db.QueryRowContext(r.Context(), "SELECT count(*) FROM payments").Scan(&n)
		fmt.Fprintf(w, "payments: %d\n", must(n, err))
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

// must panics on an error. In the middle of a payment, that leaves its outcome in doubt.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
