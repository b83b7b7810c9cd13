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
	db, err := sql.Open("sqlite", "file:shop.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	check(err)
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, item TEXT)")
	check(err)
	store, err := sqlstore.New(db, sqlstore.SQLite, nil) // the keys and their answers
	check(err)
	check(store.Migrate(ctx))

	// The tenant keeps callers apart. No password is checked here: your login does that, in front of this.
	user := func(r *http.Request) (string, error) { name, _, _ := r.BasicAuth(); return name, nil }
	idem := httpidem.New(retrysafe.New(store, nil), &httpidem.Options{Tenant: user, Key: httpidem.Required})
	http.Handle("POST /payments", idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge := "INSERT INTO payments (item) VALUES (?) RETURNING id"
		reply(w, http.StatusCreated, "payment %d\n", db.QueryRowContext(r.Context(), charge, r.FormValue("item")))
	})))
	http.HandleFunc("GET /payments", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, "payments: %d\n", db.QueryRowContext(r.Context(), "SELECT count(*) FROM payments"))
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

func reply(w http.ResponseWriter, status int, format string, row *sql.Row) {
	var n int
	if err := row.Scan(&n); err != nil {
		http.Error(w, "the database failed", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, format, n)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
