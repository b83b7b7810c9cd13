package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"time"

	_ "modernc.org/sqlite"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/httpidem/forms"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// The database numbers nothing. In a database that is split into shards, the id decides the shard.
const table = `CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, request TEXT NOT NULL, item TEXT NOT NULL)`

// orders inserts rows by an id that was made before. request has the digest of the session and the
// id, and tells a duplicate from another session that uses the same id.
var orders = guard.PrimaryKey{Table: "orders", ID: "id", Key: "request"}

type shop struct {
	db    *sql.DB
	pause time.Duration
}

func runShop(ctx context.Context, listen string, pause time.Duration) error {
	db, err := sql.Open("sqlite", "file:shop.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, table); err != nil {
		return fmt.Errorf("create the table of orders: %w", err)
	}
	s := &shop{db, pause}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.showForm)
	mux.HandleFunc("POST /orders", s.placeOrder)
	mux.HandleFunc("GET /orders/{id}", s.showOrder)
	return listenAndServe(ctx, listen, http.NewCrossOriginProtection().Handler(mux))
}

var (
	formPage = template.Must(template.New("form").Parse(`<!doctype html><title>Order</title>
<form method="post" action="/orders">
<input type="hidden" name="id" value="{{.}}" autocomplete="off">
<input name="item" value="tea" maxlength="100" required> <button>Order</button>
</form>`))
	orderPage = template.Must(template.New("order").Parse(`<!doctype html><title>Ordered</title>
<p>Order {{.ID}}: {{.Item}}. There are {{.Orders}} orders. <a href="/">Order more</a></p>`))
)

// showForm makes the id of the order, before there is an order.
func (s *shop) showForm(w http.ResponseWriter, r *http.Request) {
	if _, err := r.Cookie("session"); err != nil {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // add Secure if TLS is in front
	}
	if err := forms.Render(w, http.StatusOK, formPage, "", idgen.UUIDv7().String()); err != nil {
		http.Error(w, "Try again soon.", http.StatusInternalServerError)
	}
}

func (s *shop) placeOrder(w http.ResponseWriter, r *http.Request) {
	session, err := r.Cookie("session")
	id, item := r.FormValue("id"), r.FormValue("item")
	if err != nil || len(id) != len(idgen.UUID{}.String()) || item == "" || len(item) > 100 {
		http.Error(w, "Open the form again.", http.StatusBadRequest)
		return
	}
	err = s.insertOrder(r.Context(), retrysafe.Key{Tenant: session.Value, Operation: "order", ID: id}, item)
	switch {
	case errors.Is(err, guard.ErrConflict):
		http.Error(w, "This form belongs to someone else. Open your own.", http.StatusConflict)
		return
	case err != nil:
		log.Print("an order was not placed, or is not known to be: ", err)
		http.Error(w, "Reload this page to send the form again. It is one order.", http.StatusServiceUnavailable)
		return
	}
	select { // to be killed here, with the row committed and no answer
	case <-time.After(s.pause):
	case <-r.Context().Done():
	}
	forms.SeeOther(w, r, "/orders/"+id) // for the first and for every duplicate
}

// insertOrder inserts the row of the key's id. It returns nil if the same request has inserted it.
func (s *shop) insertOrder(ctx context.Context, by retrysafe.Key, item string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	done, err := orders.Insert(ctx, dbtx.SQL(tx, dbtx.SQLite), by.ID, by, guard.Set{"item": item})
	if err != nil {
		return err
	}
	log.Printf("order: %v", done) // Applied, or Repeat for a duplicate
	return tx.Commit()
}

func (s *shop) showOrder(w http.ResponseWriter, r *http.Request) {
	var page struct {
		ID, Item string
		Orders   int
	}
	row := s.db.QueryRowContext(r.Context(), "SELECT id, item, (SELECT count(*) FROM orders) FROM orders WHERE id = ?", r.PathValue("id"))
	err := row.Scan(&page.ID, &page.Item, &page.Orders)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, "Try again soon.", http.StatusServiceUnavailable)
	default:
		if err := orderPage.Execute(w, page); err != nil {
			log.Print("an order was not shown: ", err)
		}
	}
}
