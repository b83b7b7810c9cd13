package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	_ "modernc.org/sqlite"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

const tables = `CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parcels (id INTEGER PRIMARY KEY, order_id TEXT NOT NULL)`

// shop has orders, parcels, messages and records in one database.
type shop struct {
	db     *sql.DB
	store  *sqlstore.Store
	engine *retrysafe.Engine
	box    *outbox.Outbox
	relay  *outbox.Relay
	pause  time.Duration
}

// openShop opens the database, which is a file of SQLite. PostgreSQL and MySQL work in the same
// way.
func openShop(ctx context.Context) (*shop, error) {
	db, err := sql.Open("sqlite", "file:shop.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(db, outbox.SQLite, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(store.Migrate(ctx), box.Migrate(ctx)); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, fmt.Errorf("create the tables: %w", err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Policy: retrysafe.Policy{Wait: 5 * time.Second}})
	return &shop{db: db, store: store, engine: engine, box: box}, nil
}

type order struct {
	ID   string `json:"id"`
	Item string `json:"item"`
}

// placeOrder writes an order and the message about it, once for each key.
func (s *shop) placeOrder(ctx context.Context, key retrysafe.Key, item string) (retrysafe.Result[order], error) {
	res, err := retrysafe.DoTx(ctx, s.engine, s.store, key, func(ctx context.Context, tx *sql.Tx) (order, error) {
		o := order{ID: outbox.NewID(), Item: item}
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, item) VALUES (?, ?)", o.ID, o.Item); err != nil {
			return o, err
		}
		body, err := json.Marshal(o)
		if err != nil {
			return o, err
		}
		return o, s.box.Add(ctx, dbtx.SQL(tx, outbox.SQLite), outbox.Message{
			ID: o.ID, Topic: queue, ContentType: "application/json", Payload: body,
		})
	}, retrysafe.WithPayload(item))
	s.relay.Wake()
	return res, err
}

func (s *shop) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth() // add your own login: this does not check the password
		id, err := httpidem.ParseKey(r.Header.Values("Idempotency-Key"))
		if err != nil || r.FormValue("item") == "" {
			http.Error(w, "send an Idempotency-Key and an item", http.StatusBadRequest)
			return
		}
		res, err := s.placeOrder(r.Context(), retrysafe.Key{Tenant: user, Operation: "order", ID: id}, r.FormValue("item"))
		switch {
		case errors.Is(err, retrysafe.ErrFingerprintMismatch):
			http.Error(w, "this key was used for another order; use a new key", http.StatusUnprocessableEntity)
		case err != nil:
			log.Print("an order has no answer: ", err)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "send it again with the same key", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "order %s\n", res.Value.ID)
		}
	})
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, r *http.Request) {
		var orders, parcels int
		err := s.db.QueryRowContext(r.Context(), "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM parcels)").Scan(&orders, &parcels)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "orders: %d, parcels: %d\n", orders, parcels)
	})
	return mux
}
