package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// shop has the application's tables and retrysafe's in the same database, so that what must happen
// exactly once commits together.
type shop struct {
	db     *sql.DB
	store  *sqlstore.Store
	engine *retrysafe.Engine // on store
	box    *outbox.Outbox
}

var tables = []string{
	"CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, sku TEXT NOT NULL)",
	"CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, n INTEGER NOT NULL)",
	"CREATE TABLE IF NOT EXISTS points (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, n INTEGER NOT NULL)",
	"DELETE FROM orders", "DELETE FROM stock", "DELETE FROM points", // each run counts from zero
}

func openShop(ctx context.Context, db *sql.DB, d sqlstore.Dialect) (*shop, error) {
	store, err := sqlstore.New(db, d, nil)
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(db, d, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(store.Migrate(ctx), box.Migrate(ctx)); err != nil {
		return nil, err
	}
	for _, statement := range tables {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the tables: %w", err)
		}
	}
	return &shop{db: db, store: store, engine: retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: secret}), box: box}, nil
}

// secret would come from the environment, the same for all processes.
var secret = []byte("an example's secret")

// order is an order of a customer, and the content of the message about it.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	SKU      string `json:"sku"`
}

// placeOrder takes an order. The row and the message about it commit together, once for each key.
func (s *shop) placeOrder(ctx context.Context, key retrysafe.Key, o order) (order, error) {
	res, err := retrysafe.DoTx(ctx, s.engine, s.store, key, func(ctx context.Context, tx *sql.Tx) (order, error) {
		o.ID = outbox.NewID()
		if _, err := tx.ExecContext(ctx, s.rewriteQuery("INSERT INTO orders (id, customer, sku) VALUES (?, ?, ?)"), o.ID, o.Customer, o.SKU); err != nil {
			return o, err
		}
		return o, s.box.Add(ctx, dbtx.SQL(tx, s.store.Dialect()), outbox.Message{
			ID: o.ID, Topic: topic, Key: o.Customer, ContentType: "application/json",
			Payload: fmt.Appendf(nil, `{"id":%q,"customer":%q,"sku":%q}`, o.ID, o.Customer, o.SKU),
		})
	})
	return res.Value, err
}

var errNoStock = errors.New("out of stock")

// takePiece takes one piece out of the stock.
func (s *shop) takePiece(ctx context.Context, tx *sql.Tx, sku string) error {
	res, err := tx.ExecContext(ctx, s.rewriteQuery("UPDATE stock SET n = n - 1 WHERE sku = ? AND n > 0"), sku)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errNoStock, err)
	}
	return nil
}

// setStock sets the number of pieces.
func (s *shop) setStock(ctx context.Context, sku string, n int) error {
	_, err := s.db.ExecContext(ctx, s.rewriteQuery("INSERT INTO stock (sku, n) VALUES (?, ?) ON CONFLICT (sku) DO UPDATE SET n = excluded.n"), sku, n)
	return err
}

// addPoints writes bonus points: a row for each order, so that doing it twice does no harm.
func (s *shop) addPoints(ctx context.Context, o order) error {
	_, err := s.db.ExecContext(ctx, s.rewriteQuery("INSERT INTO points (order_id, customer, n) VALUES (?, ?, 10) ON CONFLICT (order_id) DO NOTHING"), o.ID, o.Customer)
	return err
}

// queryNumber returns the single value of a query.
func (s *shop) queryNumber(ctx context.Context, query string, args ...any) (n int, err error) {
	err = s.db.QueryRowContext(ctx, s.rewriteQuery(query), args...).Scan(&n)
	return n, err
}

// rewriteQuery rewrites the placeholders for the database.
func (s *shop) rewriteQuery(q string) string {
	if s.store.Dialect() != sqlstore.PostgreSQL {
		return q
	}
	var b strings.Builder
	for i, part := range strings.Split(q, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}
