package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// eachShop runs a test on each kind of database, with two processes on it.
func eachShop(t *testing.T, f func(t *testing.T, a, b *shop)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := newFile(t)
		f(t, newShop(t, openDB(t, "sqlite", sqliteDSN(path)), nil), newShop(t, openDB(t, "sqlite", sqliteDSN(path)), nil))
	})
	eachTxServer(t, func(t *testing.T, server txServer) {
		t.Helper()
		f(t, server.shop(t), server.process(t))
	})
}

// join begins a transaction, takes an order in it, and commits or rolls back as the error says.
// then may be nil.
func (s *shop) join(t *testing.T, customer string, then func(tx *sql.Tx) error, opts ...retrysafe.CallOption) (res retrysafe.Result[int64], ran bool, err error) {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer tx.Rollback() // where it was not committed
	res, err = retrysafe.DoTx(t.Context(), s.engine, s.store.In(tx), orderKey(customer), func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
		ran = true
		if id, err = insert(ctx, tx, customer); err == nil && then != nil {
			err = then(tx)
		}
		return id, err
	}, opts...)
	var failure *retrysafe.Failure
	if err != nil && !errors.As(err, &failure) {
		return res, ran, err
	}
	return res, ran, errors.Join(err, tx.Commit())
}

// TestTxJoined: record and effect are a part of the caller's transaction.
func TestTxJoined(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, a, b *shop) {
		t.Helper()
		first, ran, err := a.join(t, "ada", nil)
		assert.NoError(t, err, "the first")
		assert.True(t, ran && first.Stored && !first.Replayed && first.Fence > 0, "the first: %+v", first)
		again, ran, err := b.join(t, "ada", nil)
		assert.NoError(t, err, "a repeat")
		assert.True(t, !ran && again.Replayed, "a repeat")
		assert.Equal(t, again.Value, first.Value, "its answer")
		// The same record as with DoTx and the store.
		a.wantOnce(t, "ada", "a transaction of the caller")

		refused := errors.New("out of stock")
		_, _, err = a.join(t, "bob", func(*sql.Tx) error { return refused })
		assert.ErrorIs(t, err, refused, "work that fails")
		a.wantNothing(t, "bob", "an error")
		_, _, err = a.join(t, "eve", func(*sql.Tx) error { return retrysafe.Permanent("no-credit", refused) })
		var failure *retrysafe.Failure
		assert.True(t, errors.As(err, &failure) && failure.Code == "no-credit", "a final refusal: %v", err)
		assert.Equal(t, a.orders(t, "eve"), 0, "orders of a refused customer")
		_, ran, err = b.join(t, "eve", nil)
		assert.True(t, !ran && errors.As(err, &failure), "a repeat of a refusal: %v", err)

		tx, err := a.db.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		_, err = retrysafe.DoTx(t.Context(), a.engine, a.store.In(tx), orderKey("dan"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			_, err := a.store.Lookup(ctx, request("dan").Key)
			assert.ErrorIs(t, err, retrysafe.ErrInTransaction, "Lookup inside of the transaction")
			return insert(ctx, tx, "dan")
		})
		assert.NoError(t, err, "DoTx")
		assert.NoError(t, tx.Rollback(), "the caller thinks better of it")
		a.wantNothing(t, "dan", "a rollback")
		b.wantOnce(t, "dan", "a rollback")

		conn, err := a.db.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		defer conn.Rollback() // it is only read
		wrong := dbtx.PostgreSQL
		if a.store.Dialect() == wrong {
			wrong = dbtx.MySQL
		}
		_, err = retrysafe.DoTx(t.Context(), a.engine, a.store.Conn(dbtx.SQL(conn, wrong)), orderKey("pat"), func(context.Context, dbtx.Tx) (int64, error) { return 0, nil })
		assert.Contains(t, fmt.Sprint(err), "join one of the same database", "a transaction of another kind of database")
	})
}

// TestTxJoinedTwoAtOnce: of two transactions with one key one has the effect. The other one gets an
// error or the answer.
func TestTxJoinedTwoAtOnce(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, a, b *shop) {
		t.Helper()
		for round := range 5 {
			customer := fmt.Sprint("customer ", round)
			var all sync.WaitGroup
			for _, s := range []*shop{a, b, a, b} {
				all.Go(func() {
					_, ran, err := s.join(t, customer, nil, retrysafe.WithPolicy(retrysafe.Policy{Wait: patience}))
					if err != nil && ran && s.store.Dialect() != dbtx.SQLite {
						t.Errorf("work ran, and its transaction failed: %v", err)
					}
				})
			}
			all.Wait()
			a.wantOnce(t, customer, "two at once")
		}
	})
}

// TestTxJoinedStricter: also above READ COMMITTED there is one effect, and a new transaction gets
// the answer.
func TestTxJoinedStricter(t *testing.T) {
	t.Parallel()
	eachTxServer(t, func(t *testing.T, server txServer) {
		t.Helper()
		a, b := server.shop(t), server.process(t)
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			if level == sql.LevelSerializable && server.dialect == sqlstore.MySQL {
				continue // reads lock there: the other one would wait
			}
			customer := level.String()
			tx, err := b.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			assert.NoError(t, err, "begin")
			var n int
			assert.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n), "what the caller sees from now on")
			a.wantOnce(t, customer, "another's snapshot")
			ran := false
			res, err := retrysafe.DoTx(t.Context(), b.engine, b.store.In(tx), orderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
				ran = true
				return insert(ctx, tx, customer)
			})
			assert.True(t, !ran && (err != nil || res.Replayed), "work on an old snapshot at %v: %+v, %v", level, res, err)
			_ = tx.Rollback()
			b.wantOnce(t, customer, "a rollback")
		}
	})
}

// TestTxJoinedSQLiteReadFirst: a transaction that has read before another one wrote is refused the
// lock at once, with an error that says why.
func TestTxJoinedSQLiteReadFirst(t *testing.T) {
	t.Parallel()
	s := fileShop(t)
	tx, err := s.db.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer tx.Rollback() // it has failed
	var n int
	assert.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n), "read")
	s.wantOnce(t, "ada", "another's snapshot")
	_, err = retrysafe.DoTx(t.Context(), s.engine, s.store.In(tx), orderKey("bob"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		return insert(ctx, tx, "bob")
	})
	assert.Contains(t, fmt.Sprint(err), "first statement", "the error")
	assert.True(t, !errors.Is(err, retrysafe.ErrInProgress), "it is not another call: %v", err)
	assert.Equal(t, s.orders(t, "bob"), 0, "orders")
}

// TestTxJoinedConn: with connections of other libraries.
func TestTxJoinedConn(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, a, b *shop) {
		t.Helper()
		for i, s := range []*shop{a, b} {
			tx, err := s.db.BeginTx(t.Context(), nil)
			assert.NoError(t, err, "begin")
			ran := false
			res, err := retrysafe.DoTx(t.Context(), s.engine, s.store.Conn(dbtx.SQL(tx, s.store.Dialect())), orderKey("ada"), func(ctx context.Context, tx dbtx.Tx) (int64, error) {
				ran = true
				n, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ('ada')")
				return n, err
			})
			assert.NoError(t, err, "DoTx")
			assert.NoError(t, tx.Commit(), "commit")
			assert.True(t, ran == (i == 0) && res.Value == 1, "call %d: %v, %+v", i, ran, res)
		}
		assert.Equal(t, a.orders(t, "ada"), 1, "orders")
	})
}

var _ retrysafe.Limiter = sqlstore.Join[int](nil, 0, nil).(retrysafe.Limiter) //nolint:errcheck,forcetypeassert // so that limits work

// TestTxSavepoints: savepoints can be nested, also in the one that DoTx itself makes, and undo only
// their own part.
func TestTxSavepoints(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s, _ *shop) {
		t.Helper()
		tx, err := s.db.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		defer tx.Rollback() // where it was not committed
		refused := errors.New("no")
		add := func(ctx context.Context, tx dbtx.Tx, customer string) error {
			_, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ('"+customer+"')")
			return err
		}
		_, err = retrysafe.DoTx(t.Context(), s.engine, s.store.Conn(dbtx.SQL(tx, s.store.Dialect())), orderKey("ada"), func(ctx context.Context, tx dbtx.Tx) (int, error) {
			return 1, dbtx.Savepoint(ctx, tx, func(ctx context.Context) error {
				assert.ErrorIs(t, dbtx.Savepoint(ctx, tx, func(ctx context.Context) error {
					return errors.Join(add(ctx, tx, "inner"), refused)
				}), refused, "the inner one")
				return add(ctx, tx, "outer")
			})
		})
		assert.NoError(t, err, "DoTx")
		assert.NoError(t, tx.Commit(), "commit")
		assert.Equal(t, s.orders(t, "inner"), 0, "what the inner one has undone")
		assert.Equal(t, s.orders(t, "outer"), 1, "what the outer one has kept")
	})
}

// TestLooksAreApart: callers that look up a record together do not share memory.
func TestLooksAreApart(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s, _ *shop) {
		t.Helper()
		a, err := s.store.Acquire(t.Context(), request("a"))
		assert.NoError(t, err, "Acquire")
		_, err = s.store.Complete(t.Context(), retrysafe.CompleteRequest{
			Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
			Answer: retrysafe.Answer{Kept: true, Codec: "raw", Body: []byte("the answer")},
		})
		assert.NoError(t, err, "Complete")
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 20 {
					rec, err := s.store.Lookup(t.Context(), a.Record.Key)
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
