package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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
	e := retrysafe.New(s, &retrysafe.Options{Secret: []byte("0123456789abcdef"), Sweep: -1})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

func fileShop(t *testing.T) *shop {
	t.Helper()
	return newShop(t, openDB(t, "sqlite", sqliteDSN(newFile(t))), nil)
}

// hasty is the same shop through a store that soon gives up waiting.
func (s *shop) hasty(t *testing.T) *shop {
	t.Helper()
	store := newStore(t, s.db, &sqlstore.Options{LockWait: 30 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	return &shop{store: store, engine: newEngine(t, store), db: s.db}
}

func orderKey(id string) retrysafe.Key { return retrysafe.Key{Operation: "order", ID: id} }

// insert is the effect: one row.
func insert(ctx context.Context, tx *sql.Tx, customer string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "INSERT INTO orders (customer) VALUES (?) RETURNING id", customer).Scan(&id)
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
	err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders WHERE customer = ?", customer).Scan(&n)
	assert.NoError(t, err, "count orders")
	return n
}

// record is what is committed of a customer's key; state zero where nothing is.
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

// wantOnce repeats the order until it is answered, and wants one effect.
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

func TestSQLiteTxBothOrNeither(t *testing.T) {
	t.Parallel()
	s := fileShop(t)
	res, err := s.order(t.Context(), "ada")
	assert.NoError(t, err, "DoTx")
	assert.True(t, res.Stored && !res.Replayed && res.Attempt == 1 && res.Fence > 0, "the first result: %+v", res)
	s.wantOnce(t, "ada", "success")
	rec := s.record(t, "ada")
	assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
	assert.Equal(t, rec.Fence, res.Fence, "fence")

	refused := errors.New("out of stock")
	work := func(then func(tx *sql.Tx) error) (retrysafe.Result[int64], error) {
		return retrysafe.DoTx(t.Context(), s.engine, s.store, orderKey("bob"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			id, err := insert(ctx, tx, "bob")
			return id, errors.Join(err, then(tx))
		})
	}
	_, err = work(func(*sql.Tx) error { return refused })
	assert.ErrorIs(t, err, refused, "DoTx whose work fails")
	s.wantNothing(t, "bob", "an error")
	func() {
		defer func() { assert.Equal(t, recover(), any("no paper"), "the panic goes on up") }()
		_, _ = work(func(*sql.Tx) error { panic("no paper") })
	}()
	s.wantNothing(t, "bob", "a panic")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = work(func(*sql.Tx) error { runtime.Goexit(); return nil })
	}()
	soon(t, gone, "a goroutine that ends in the work")
	s.wantNothing(t, "bob", "Goexit")
	s.wantOnce(t, "bob", "all these")
}

func TestSQLiteTxPermanent(t *testing.T) {
	t.Parallel()
	s := fileShop(t)
	runs := 0
	for range 2 {
		_, err := retrysafe.DoTx(t.Context(), s.engine, s.store, orderKey("eve"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			runs++
			_, err := insert(ctx, tx, "eve")
			return 0, errors.Join(err, retrysafe.Permanent("no-credit", errors.New("no credit")))
		})
		var failure *retrysafe.Failure
		assert.True(t, errors.As(err, &failure) && failure.Code == "no-credit", "a final refusal: %v", err)
	}
	assert.Equal(t, runs, 1, "runs")
	assert.Equal(t, s.orders(t, "eve"), 0, "orders of a refused customer")
	assert.Equal(t, s.record(t, "eve").State, retrysafe.StateFailed, "state")
}

// TestSQLiteTxDuplicates: of many at once one has the effect, and the others get its answer.
func TestSQLiteTxDuplicates(t *testing.T) {
	t.Parallel()
	s := fileShop(t)
	const callers, customers = 8, 4
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]map[int64]bool{}
	for i := range callers * customers {
		customer := fmt.Sprint("customer ", i%customers)
		all.Go(func() {
			res, err := s.order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
			if err != nil {
				t.Errorf("a duplicate: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if answers[customer] == nil {
				answers[customer] = map[int64]bool{}
			}
			answers[customer][res.Value] = true
		})
	}
	all.Wait()
	assert.Equal(t, count(t, s.db, "orders"), customers, "orders")
	for customer, got := range answers {
		assert.Equal(t, len(got), 1, "different answers for %s", customer)
	}
}

// blockedOrder is an order whose work has begun and waits.
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
	for _, conns := range []int{0, 1} { // with one connection the first call has it
		s := fileShop(t)
		s.db.SetMaxOpenConns(conns)
		finish := s.blockedOrder(t, "ada", nil)
		for _, wait := range []time.Duration{-1, time.Millisecond} {
			_, err := s.order(t.Context(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: wait}))
			assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a duplicate that waits %v", wait)
		}
		waiter := make(chan error, 1)
		go func() {
			_, err := s.order(context.Background(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
			waiter <- err
		}()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.order(ctx, "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
		assert.ErrorIs(t, err, context.Canceled, "a duplicate whose context has ended")
		assert.NoError(t, finish(), "the first")
		assert.NoError(t, soon(t, waiter, "the waiter"), "a duplicate that waits")
		s.wantOnce(t, "ada", "a duplicate that waited")
	}
}

// TestSQLiteTxWaiterRunsAfterRollback: what was rolled back has never been; whoever waited for it is the next.
func TestSQLiteTxWaiterRunsAfterRollback(t *testing.T) {
	t.Parallel()
	s := fileShop(t)
	refused := errors.New("out of stock")
	finish := s.blockedOrder(t, "ada", refused)
	waiter := make(chan retrysafe.Result[int64], 1)
	go func() {
		res, err := s.order(context.Background(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		waiter <- res
	}()
	assert.ErrorIs(t, finish(), refused, "the first")
	assert.True(t, !soon(t, waiter, "the waiter").Replayed, "the waiter ran the work")
	s.wantOnce(t, "ada", "a rollback")
}

// TestSQLiteTxOtherKeysWaitForTheFile: another key's transaction is not the same work in progress.
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
