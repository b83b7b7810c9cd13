package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestTxJoined: record and effect are a part of the caller's transaction.
func TestTxJoined(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		first, ran, err := a.Join(t, "ada", nil)
		assert.NoError(t, err, "the first")
		assert.True(t, ran && first.Stored && !first.Replayed && first.Fence > 0, "the first: %+v", first)
		again, ran, err := b.Join(t, "ada", nil)
		assert.NoError(t, err, "a repeat")
		assert.True(t, !ran && again.Replayed, "a repeat")
		assert.Equal(t, again.Value, first.Value, "its answer")
		// The same record as with DoTx and the store.
		a.WantOnce(t, "ada", "a transaction of the caller")

		refused := errors.New("out of stock")
		_, _, err = a.Join(t, "bob", func(*sql.Tx) error { return refused })
		assert.ErrorIs(t, err, refused, "work that fails")
		a.WantNothing(t, "bob", "an error")
		_, _, err = a.Join(t, "eve", func(*sql.Tx) error { return retrysafe.Permanent("no-credit", refused) })
		var failure *retrysafe.Failure
		assert.True(t, errors.As(err, &failure) && failure.Code == "no-credit", "a final refusal: %v", err)
		assert.Equal(t, a.Orders(t, "eve"), 0, "orders of a refused customer")
		_, ran, err = b.Join(t, "eve", nil)
		assert.True(t, !ran && errors.As(err, &failure), "a repeat of a refusal: %v", err)

		tx, err := a.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		_, err = retrysafe.DoTx(t.Context(), a.Engine, a.Store.In(tx), teststores.OrderKey("dan"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			_, err := a.Store.Lookup(ctx, teststores.Request("dan").Key)
			assert.ErrorIs(t, err, retrysafe.ErrInTransaction, "Lookup inside of the transaction")
			return shops.Insert(ctx, tx, "dan")
		})
		assert.NoError(t, err, "DoTx")
		assert.NoError(t, tx.Rollback(), "the caller thinks better of it")
		a.WantNothing(t, "dan", "a rollback")
		b.WantOnce(t, "dan", "a rollback")

		conn, err := a.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		defer conn.Rollback() // it is only read
		wrong := dbtx.PostgreSQL
		if a.Store.Dialect() == wrong {
			wrong = dbtx.MySQL
		}
		_, err = retrysafe.DoTx(t.Context(), a.Engine, a.Store.InTx(dbtx.SQL(conn, wrong)), teststores.OrderKey("pat"), func(context.Context, dbtx.Tx) (int64, error) { return 0, nil })
		assert.Contains(t, fmt.Sprint(err), "join one of the same database", "a transaction of another kind of database")
	})
}

// TestTxJoinedTwoAtOnce: of two transactions with one key one has the effect. The other one gets an
// error or the answer.
func TestTxJoinedTwoAtOnce(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		for round := range 5 {
			customer := fmt.Sprint("customer ", round)
			var all sync.WaitGroup
			for _, s := range []*shops.Shop{a, b, a, b} {
				all.Go(func() {
					_, ran, err := s.Join(t, customer, nil, retrysafe.WithPolicy(retrysafe.Policy{Wait: waits.Patience}))
					if err != nil && ran && s.Store.Dialect() != dbtx.SQLite {
						t.Errorf("work ran, and its transaction failed: %v", err)
					}
				})
			}
			all.Wait()
			a.WantOnce(t, customer, "two at once")
		}
	})
}

// TestTxJoinedStricter: also above READ COMMITTED there is one effect, and a new transaction gets
// the answer.
func TestTxJoinedStricter(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			if level == sql.LevelSerializable && server.Dialect == sqlstore.MySQL {
				continue // reads lock there: the other one would wait
			}
			customer := level.String()
			tx, err := b.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			assert.NoError(t, err, "begin")
			var n int
			assert.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n), "what the caller sees from now on")
			a.WantOnce(t, customer, "another's snapshot")
			ran := false
			res, err := retrysafe.DoTx(t.Context(), b.Engine, b.Store.In(tx), teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
				ran = true
				return shops.Insert(ctx, tx, customer)
			})
			assert.True(t, !ran && (err != nil || res.Replayed), "work on an old snapshot at %v: %+v, %v", level, res, err)
			_ = tx.Rollback()
			b.WantOnce(t, customer, "a rollback")
		}
	})
}

// TestTxJoinedSQLiteReadFirst: a transaction that has read before another one wrote is refused the
// lock at once, with an error that says why.
func TestTxJoinedSQLiteReadFirst(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	tx, err := s.DB.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer tx.Rollback() // it has failed
	var n int
	assert.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n), "read")
	s.WantOnce(t, "ada", "another's snapshot")
	_, err = retrysafe.DoTx(t.Context(), s.Engine, s.Store.In(tx), teststores.OrderKey("bob"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		return shops.Insert(ctx, tx, "bob")
	})
	assert.Contains(t, fmt.Sprint(err), "first statement", "the error")
	assert.True(t, !errors.Is(err, retrysafe.ErrInProgress), "it is not another call: %v", err)
	assert.Equal(t, s.Orders(t, "bob"), 0, "orders")
}

// TestTxJoinedConn: with connections of other libraries.
func TestTxJoinedConn(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		for i, s := range []*shops.Shop{a, b} {
			tx, err := s.DB.BeginTx(t.Context(), nil)
			assert.NoError(t, err, "begin")
			ran := false
			res, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store.InTx(dbtx.SQL(tx, s.Store.Dialect())), teststores.OrderKey("ada"), func(ctx context.Context, tx dbtx.Tx) (int64, error) {
				ran = true
				n, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ('ada')")
				return n, err
			})
			assert.NoError(t, err, "DoTx")
			assert.NoError(t, tx.Commit(), "commit")
			assert.True(t, ran == (i == 0) && res.Value == 1, "call %d: %v, %+v", i, ran, res)
		}
		assert.Equal(t, a.Orders(t, "ada"), 1, "orders")
	})
}

var _ storeapi.Limiter = sqlstore.Join[int](nil, 0, nil).(storeapi.Limiter) //nolint:errcheck,forcetypeassert // so that limits work

// TestTxSavepoints: savepoints can be nested, also in the one that DoTx itself makes, and undo only
// their own part.
func TestTxSavepoints(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, s, _ *shops.Shop) {
		t.Helper()
		tx, err := s.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		defer tx.Rollback() // where it was not committed
		refused := errors.New("no")
		add := func(ctx context.Context, tx dbtx.Tx, customer string) error {
			_, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ('"+customer+"')")
			return err
		}
		_, err = retrysafe.DoTx(t.Context(), s.Engine, s.Store.InTx(dbtx.SQL(tx, s.Store.Dialect())), teststores.OrderKey("ada"), func(ctx context.Context, tx dbtx.Tx) (int, error) {
			return 1, dbtx.Savepoint(ctx, tx, func(ctx context.Context) error {
				assert.ErrorIs(t, dbtx.Savepoint(ctx, tx, func(ctx context.Context) error {
					return errors.Join(add(ctx, tx, "inner"), refused)
				}), refused, "the inner one")
				return add(ctx, tx, "outer")
			})
		})
		assert.NoError(t, err, "DoTx")
		assert.NoError(t, tx.Commit(), "commit")
		assert.Equal(t, s.Orders(t, "inner"), 0, "what the inner one has undone")
		assert.Equal(t, s.Orders(t, "outer"), 1, "what the outer one has kept")
	})
}

// TestLooksAreApart: callers that look up a record together do not share memory.
func TestLooksAreApart(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, s, _ *shops.Shop) {
		t.Helper()
		a, err := s.Store.Acquire(t.Context(), teststores.Request("a"))
		assert.NoError(t, err, "Acquire")
		_, err = s.Store.Complete(t.Context(), storeapi.CompleteRequest{
			Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
			Answer: retrysafe.Answer{Kept: true, Codec: "raw", Body: []byte("the answer")},
		})
		assert.NoError(t, err, "Complete")
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 20 {
					rec, err := s.Store.Lookup(t.Context(), a.Record.Key)
					if err != nil || string(rec.Answer.Body) != "the answer" {
						t.Errorf("Lookup: %q, %v", rec.Answer.Body, err)
						return
					}
					copy(rec.Answer.Body, "overwritten") // the race detector watches this
				}
			})
		}
		all.Wait()
	})
}
