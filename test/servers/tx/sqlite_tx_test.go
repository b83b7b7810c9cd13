package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

func TestSQLiteTxBothOrNeither(t *testing.T) { t.Parallel(); txBothOrNeither(t, shops.NewFile) }

func TestSQLiteTxPermanent(t *testing.T) { t.Parallel(); txPermanent(t, shops.NewFile) }

func TestSQLiteTxDuplicates(t *testing.T) { t.Parallel(); txDuplicates(t, shops.NewFile) }

func TestSQLiteTxDuplicateOfARunningOne(t *testing.T) {
	t.Parallel()
	txDuplicateOfARunningOne(t, shops.NewFile)
}

func TestSQLiteTxWaiterRunsAfterRollback(t *testing.T) {
	t.Parallel()
	txWaiterRunsAfterRollback(t, shops.NewFile)
}

// TestSQLiteTxOtherKeysWaitForTheFile: another key's transaction does not make a key in progress.
func TestSQLiteTxOtherKeysWaitForTheFile(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	finish := s.BlockedOrder(t, "ada", nil)
	_, err := s.Hasty(t).Order(t.Context(), "bob")
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "an order beside an open one")
	assert.Contains(t, fmt.Sprint(err), "SQLite has one writer", "an order beside an open one")
	assert.NoError(t, finish(), "the open one")
	s.WantOnce(t, "bob", "an open transaction")
}

func TestSQLiteTxStoreCallsInside(t *testing.T) {
	t.Parallel()
	s, other := shops.NewFile(t), shops.NewFile(t)
	memory := teststores.Engine(t, memstore.New(nil))
	second := teststores.NewSQLite(t, s.DB, &sqlstore.Options{Table: "second"})
	effect := func(ctx context.Context) error { return ctx.Err() }
	var leaked context.Context
	var calls atomic.Int32
	_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		leaked = ctx
		refused := func(what string, err error) {
			t.Helper()
			calls.Add(1)
			if !errors.Is(err, retrysafe.ErrInTransaction) {
				t.Errorf("%s inside of a transaction: got %v, want ErrInTransaction", what, err)
			}
		}
		_, err := retrysafe.Run(ctx, s.Engine, teststores.OrderKey("inner"), effect)
		refused("Run", err)
		_, err = retrysafe.Run(context.WithoutCancel(ctx), s.Engine, teststores.OrderKey("inner"), effect)
		refused("Run with a detached context", err)
		_, err = s.Order(ctx, "inner")
		refused("DoTx", err)
		_, err = s.Engine.Lookup(ctx, teststores.OrderKey("inner"))
		refused("Lookup", err)
		_, err = s.Store.List(ctx, storeapi.ListRequest{})
		refused("List", err)
		_, err = s.Store.Sweep(ctx, 1)
		refused("Sweep", err)
		refused("Migrate", second.Migrate(ctx))
		_, err = retrysafe.Run(ctx, memory, teststores.OrderKey("inner"), effect)
		assert.NoError(t, err, "Run on another store")
		res, err := retrysafe.DoTx(ctx, other.Engine, other.Store, teststores.OrderKey("inner"), func(inner context.Context, tx *sql.Tx) (int64, error) {
			_, err := s.Store.List(inner, storeapi.ListRequest{})
			refused("List in a transaction in a transaction", err)
			return shops.Insert(inner, tx, "inner")
		})
		assert.NoError(t, err, "DoTx on another database")
		assert.True(t, res.Stored, "DoTx on another database is stored")
		return shops.Insert(ctx, tx, "ada")
	})
	assert.NoError(t, err, "the outer transaction")
	assert.Equal(t, calls.Load(), int32(8), "calls that were tried")
	_, err = s.Store.List(leaked, storeapi.ListRequest{})
	assert.ErrorIs(t, err, context.Canceled, "List with the context of a transaction that has ended")
	_, err = s.Store.List(context.WithoutCancel(leaked), storeapi.ListRequest{})
	assert.NoError(t, err, "List with its values")
}
