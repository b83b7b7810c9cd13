// Package shops is an application whose orders are made in transactions, on each kind of database.
package shops

import (
	"context"
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// Shop is an application that takes orders in transactions.
type Shop struct {
	Store  *sqlstore.Store
	Engine *retrysafe.Engine
	DB     *sql.DB
}

// OrdersTable creates the table of orders on SQLite.
const OrdersTable = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)"

// New returns a shop on an SQLite database. o may be nil.
func New(t *testing.T, db *sql.DB, o *sqlstore.Options) *Shop {
	t.Helper()
	s := &Shop{Store: teststores.SQLite(t, db, o), DB: db}
	sqltest.Exec(t, db, OrdersTable)
	s.Engine = teststores.Engine(t, s.Store)
	return s
}

// NewFile returns a shop on a new SQLite file.
func NewFile(t *testing.T) *Shop {
	t.Helper()
	return New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t))), nil)
}

// Hasty returns the same shop, with a store that soon gives up waiting.
func (s *Shop) Hasty(t *testing.T) *Shop {
	t.Helper()
	store := teststores.NewSQLite(t, s.DB, &sqlstore.Options{LockWait: 30 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	return &Shop{Store: store, Engine: teststores.Engine(t, store), DB: s.DB}
}

// Insert makes the effect: one row. The customers are the tests' own, and databases differ in how
// they write placeholders.
func Insert(ctx context.Context, tx *sql.Tx, customer string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "INSERT INTO orders (customer) VALUES ('"+customer+"') RETURNING id").Scan(&id)
	return id, err
}

// Order takes an order in a transaction. The customer is the key.
func (s *Shop) Order(ctx context.Context, customer string, opts ...retrysafe.CallOption) (retrysafe.Result[int64], error) {
	return retrysafe.DoTx(ctx, s.Engine, s.Store, teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		return Insert(ctx, tx, customer)
	}, opts...)
}

// Orders counts the effects of a customer.
func (s *Shop) Orders(t *testing.T, customer string) (n int) {
	t.Helper()
	err := s.DB.QueryRowContext(t.Context(), "SELECT count(*) FROM orders WHERE customer = '"+customer+"'").Scan(&n)
	assert.NoError(t, err, "count orders")
	return n
}

// Record returns the committed record of a customer's key; its state is zero if there is none.
func (s *Shop) Record(t *testing.T, customer string) retrysafe.Record {
	t.Helper()
	rec, err := s.Store.Lookup(t.Context(), storeapi.StoreKey{Namespace: "app", Layer: "tx", Key: teststores.OrderKey(customer)})
	assert.NoError(t, err, "Lookup")
	return rec
}

// WantNothing checks that a customer has no order and no record.
func (s *Shop) WantNothing(t *testing.T, customer, after string) {
	t.Helper()
	assert.Equal(t, s.Orders(t, customer), 0, "orders after %s", after)
	assert.Equal(t, s.Record(t, customer).State, 0, "state after %s", after)
}

// WantOnce repeats the order until it is answered, and checks that there is one effect.
func (s *Shop) WantOnce(t *testing.T, customer, after string) {
	t.Helper()
	first, err := s.Order(t.Context(), customer)
	assert.NoError(t, err, "the order after %s", after)
	again, err := s.Order(t.Context(), customer)
	assert.NoError(t, err, "a repeat")
	assert.True(t, again.Replayed, "a repeat is replayed")
	assert.Equal(t, again.Value, first.Value, "answer of a repeat")
	assert.Equal(t, s.Orders(t, customer), 1, "orders of %s after %s", customer, after)
}
