package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestTxJoinedManyKeys: callers with different keys wait for each other if the database makes them,
// and none gets an error that its key is in progress.
func TestTxJoinedManyKeys(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t), "busy_timeout(60000)")), nil)
		const callers = 200
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				_, _, err := s.Join(t, fmt.Sprint("customer ", i), nil)
				assert.NoError(t, err, "customer %d", i)
			})
		}
		all.Wait()
		for i := range callers {
			assert.Equal(t, s.Orders(t, fmt.Sprint("customer ", i)), 1, "orders of customer %d", i)
		}
	})
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelDefault, sql.LevelReadCommitted} {
			for filled := range 2 { // an empty table, and one with records
				tx, err := a.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				assert.NoError(t, err, "begin")
				customer := func(i int) string { return fmt.Sprint(level, filled, " ", i) }
				_, err = retrysafe.DoTx(t.Context(), a.Engine, a.Store.In(tx), teststores.OrderKey(customer(-1)), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					return shops.Insert(ctx, tx, customer(-1))
				})
				assert.NoError(t, err, "a transaction that stays open")
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						// A table that grows is locked for a moment. The wait for that is no longer
						// than the wait for a key.
						_, err := b.Order(t.Context(), customer(i), retrysafe.WithPolicy(retrysafe.Policy{Wait: 10 * time.Second}))
						assert.NoError(t, err, "another key beside it, %v", level)
					})
				}
				all.Wait()
				assert.NoError(t, tx.Commit(), "commit")
				a.WantOnce(t, customer(-1), "others beside it")
			}
		}
	})
}

// TestTxJoinedBusyFile: a file that another transaction writes to does not mean that the key is in
// progress.
func TestTxJoinedBusyFile(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path, "busy_timeout(10)")), nil)
	other := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)+"&_txlock=immediate")
	held, err := other.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "the lock of the file")
	defer held.Rollback() // it has done nothing
	_, ran, err := s.Join(t, "ada", nil)
	assert.True(t, !ran && errors.Is(err, retrysafe.ErrUnavailable) && !errors.Is(err, retrysafe.ErrInProgress), "a busy file: %v", err)
}

// TestTxHeldKeyWithOneConnection: a caller that does not wait for a key that another one holds gets
// an error at once, also if its pool has one connection. If the answer is there, it gets the
// answer.
func TestTxHeldKeyWithOneConnection(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		b.DB.SetMaxOpenConns(1)
		tx, err := a.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		assert.NoError(t, err, "begin")
		_, err = retrysafe.DoTx(t.Context(), a.Engine, a.Store.In(tx), teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) { return shops.Insert(ctx, tx, "ada") })
		assert.NoError(t, err, "a transaction that stays open")
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, call := range map[string]func() error{
			"DoTx": func() error {
				_, err := b.Order(within, "ada")
				return err
			},
			"In": func() error {
				_, _, err := b.Join(t, "ada", nil)
				return err
			},
		} {
			err := call()
			assert.ErrorIs(t, err, retrysafe.ErrInProgress, "%s beside it, on %v", name, server.Dialect)
		}
		assert.True(t, within.Err() == nil, "it takes no second connection")
		if server.Dialect == sqlstore.PostgreSQL {
			// It has the lock, and the answer is there: another call only reads it.
			assert.NoError(t, tx.Commit(), "commit")
			tx, err = a.DB.BeginTx(t.Context(), nil)
			assert.NoError(t, err, "begin")
			_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM retrysafe_records FOR UPDATE")
			assert.NoError(t, err, "somebody who reads the record")
			_, ran, err := b.Join(t, "ada", nil)
			assert.True(t, !ran && err == nil, "a repeat: %v", err)
		}
		assert.NoError(t, tx.Commit(), "the end of it")
		b.WantOnce(t, "ada", "a call beside it")
	})
}
