package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// shop is an application that takes orders in transactions.
type shop struct {
	store  *sqlstore.Store
	engine *retrysafe.Engine
	db     *sql.DB
}

const ordersTable = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)"

func newShop(t *testing.T, db *sql.DB, o *sqlstore.Options) *shop {
	t.Helper()
	s := &shop{store: migrated(t, db, o), db: db}
	execSQL(t, db, ordersTable)
	s.engine = newEngine(t, s.store)
	return s
}

func newEngine(t *testing.T, s retrysafe.Store) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

func fileShop(t *testing.T) *shop {
	t.Helper()
	return newShop(t, openDB(t, "sqlite", sqliteDSN(newFile(t))), nil)
}

// hasty returns the same shop, with a store that soon gives up waiting.
func (s *shop) hasty(t *testing.T) *shop {
	t.Helper()
	store := newStore(t, s.db, &sqlstore.Options{LockWait: 30 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	return &shop{store: store, engine: newEngine(t, store), db: s.db}
}

func orderKey(id string) retrysafe.Key { return retrysafe.Key{Operation: "order", ID: id} }

// insert makes the effect: one row.
func insert(ctx context.Context, tx *sql.Tx, customer string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "INSERT INTO orders (customer) VALUES ('"+customer+"') RETURNING id").Scan(&id) //nolint:gosec // customers are the tests' own, and placeholders differ
	return id, err
}

func (s *shop) order(ctx context.Context, customer string, opts ...retrysafe.CallOption) (retrysafe.Result[int64], error) {
	return retrysafe.DoTx(ctx, s.engine, s.store, orderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		return insert(ctx, tx, customer)
	}, opts...)
}

// orders counts the effects of a customer.
func (s *shop) orders(t *testing.T, customer string) (n int) {
	t.Helper()
	err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders WHERE customer = '"+customer+"'").Scan(&n)
	assert.NoError(t, err, "count orders")
	return n
}

// record returns the committed record of a customer's key; its state is zero if there is none.
func (s *shop) record(t *testing.T, customer string) retrysafe.Record {
	t.Helper()
	rec, err := s.store.Lookup(t.Context(), retrysafe.StoreKey{Namespace: "app", Layer: "tx", Key: orderKey(customer)})
	assert.NoError(t, err, "Lookup")
	return rec
}

func (s *shop) wantNothing(t *testing.T, customer, after string) {
	t.Helper()
	assert.Equal(t, s.orders(t, customer), 0, "orders after %s", after)
	assert.Equal(t, s.record(t, customer).State, 0, "state after %s", after)
}

// wantOnce repeats the order until it is answered, and checks that there is one effect.
func (s *shop) wantOnce(t *testing.T, customer, after string) {
	t.Helper()
	first, err := s.order(t.Context(), customer)
	assert.NoError(t, err, "the order after %s", after)
	again, err := s.order(t.Context(), customer)
	assert.NoError(t, err, "a repeat")
	assert.True(t, again.Replayed, "a repeat is replayed")
	assert.Equal(t, again.Value, first.Value, "answer of a repeat")
	assert.Equal(t, s.orders(t, customer), 1, "orders of %s after %s", customer, after)
}

func txRequest(id string) retrysafe.TxRequest {
	return retrysafe.TxRequest{
		Key:   retrysafe.StoreKey{Namespace: "integration", Layer: "tx", Key: retrysafe.Key{Operation: "order", ID: id}},
		Owner: owner(id), Retention: time.Hour, Wait: -1,
	}
}

func noEffect(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error) {
	return retrysafe.StateCompleted, retrysafe.Answer{Codec: "raw", Body: []byte("done"), Kept: true}, nil
}

func TestSQLiteTxBothOrNeither(t *testing.T) { t.Parallel(); txBothOrNeither(t, fileShop) }

func TestSQLiteTxPermanent(t *testing.T) { t.Parallel(); txPermanent(t, fileShop) }

func TestSQLiteTxDuplicates(t *testing.T) { t.Parallel(); txDuplicates(t, fileShop) }

// blockedOrder starts an order whose work has begun and waits.
func (s *shop) blockedOrder(t *testing.T, customer string, result error) (finish func() error) {
	t.Helper()
	began, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := retrysafe.DoTx(context.Background(), s.engine, s.store, orderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			close(began)
			<-goOn
			id, err := insert(ctx, tx, customer)
			return id, errors.Join(err, result)
		})
		done <- err
	}()
	soon(t, began, "the work")
	finish = sync.OnceValue(func() error { close(goOn); return soon(t, done, "the end of the work") })
	t.Cleanup(func() { _ = finish() })
	return finish
}

func TestSQLiteTxDuplicateOfARunningOne(t *testing.T) {
	t.Parallel()
	txDuplicateOfARunningOne(t, fileShop)
}

func TestSQLiteTxWaiterRunsAfterRollback(t *testing.T) {
	t.Parallel()
	txWaiterRunsAfterRollback(t, fileShop)
}

// TestSQLiteTxOtherKeysWaitForTheFile: another key's transaction does not make a key in progress.
func TestSQLiteTxOtherKeysWaitForTheFile(t *testing.T) {
	t.Parallel()
	s := fileShop(t)
	finish := s.blockedOrder(t, "ada", nil)
	_, err := s.hasty(t).order(t.Context(), "bob")
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "an order beside an open one")
	assert.Contains(t, fmt.Sprint(err), "SQLite has one writer", "an order beside an open one")
	assert.NoError(t, finish(), "the open one")
	s.wantOnce(t, "bob", "an open transaction")
}

func TestSQLiteTxStoreCallsInside(t *testing.T) {
	t.Parallel()
	s, other := fileShop(t), fileShop(t)
	memory := newEngine(t, memstore.New(nil))
	second := newStore(t, s.db, &sqlstore.Options{Table: "second"})
	effect := func(ctx context.Context) error { return ctx.Err() }
	var leaked context.Context
	var calls atomic.Int32
	_, err := retrysafe.DoTx(t.Context(), s.engine, s.store, orderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		leaked = ctx
		refused := func(what string, err error) {
			t.Helper()
			calls.Add(1)
			if !errors.Is(err, retrysafe.ErrInTransaction) {
				t.Errorf("%s inside of a transaction: got %v, want ErrInTransaction", what, err)
			}
		}
		_, err := retrysafe.Run(ctx, s.engine, orderKey("inner"), effect)
		refused("Run", err)
		_, err = retrysafe.Run(context.WithoutCancel(ctx), s.engine, orderKey("inner"), effect)
		refused("Run with a detached context", err)
		_, err = s.order(ctx, "inner")
		refused("DoTx", err)
		_, err = s.engine.Lookup(ctx, orderKey("inner"))
		refused("Lookup", err)
		_, err = s.store.List(ctx, retrysafe.ListRequest{})
		refused("List", err)
		_, err = s.store.Sweep(ctx, 1)
		refused("Sweep", err)
		refused("Migrate", second.Migrate(ctx))
		_, err = retrysafe.Run(ctx, memory, orderKey("inner"), effect)
		assert.NoError(t, err, "Run on another store")
		res, err := retrysafe.DoTx(ctx, other.engine, other.store, orderKey("inner"), func(inner context.Context, tx *sql.Tx) (int64, error) {
			_, err := s.store.List(inner, retrysafe.ListRequest{})
			refused("List in a transaction in a transaction", err)
			return insert(inner, tx, "inner")
		})
		assert.NoError(t, err, "DoTx on another database")
		assert.True(t, res.Stored, "DoTx on another database is stored")
		return insert(ctx, tx, "ada")
	})
	assert.NoError(t, err, "the outer transaction")
	assert.Equal(t, calls.Load(), int32(8), "calls that were tried")
	_, err = s.store.List(leaked, retrysafe.ListRequest{})
	assert.ErrorIs(t, err, context.Canceled, "List with the context of a transaction that has ended")
	_, err = s.store.List(context.WithoutCancel(leaked), retrysafe.ListRequest{})
	assert.NoError(t, err, "List with its values")
}
