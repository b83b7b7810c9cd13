package sql_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestSQLiteLimitsOnABusyFile: under limits, what is known is answered while another transaction
// has the file, or when nothing can be written. It is looked up, and nothing is counted.
func TestSQLiteLimitsOnABusyFile(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]func(t *testing.T, path string, db *sql.DB){
		"busy": func(t *testing.T, path string, _ *sql.DB) {
			t.Helper()
			t.Cleanup(sqltest.HoldFile(t, path))
		},
		"takes no writes": func(t *testing.T, _ string, db *sql.DB) {
			t.Helper()
			db.SetMaxOpenConns(1) // the setting is that of a connection
			sqltest.Exec(t, db, "PRAGMA query_only = 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := sqltest.NewFile(t)
			s, db := teststores.OpenSQLite(t, path, &sqlstore.Options{LockWait: time.Hour})
			e := limitedEngine(t, s, retrysafe.Limits{Live: 10, PerSecond: 100, Bytes: 1 << 20})
			_, err := retrysafe.Run(t.Context(), e, teststores.OrderKey("a"), teststores.Nothing)
			assert.NoError(t, err, "the first")
			block(t, path, db)
			for range 20 {
				replayed, err := retrysafe.Run(t.Context(), e, teststores.OrderKey("a"), teststores.Nothing)
				assert.True(t, err == nil && replayed, "a repeat: %v", err)
			}
		})
	}
}

// TestSQLiteTxLimitsInProgress: also under limits, a duplicate of a key whose transaction is open
// is rejected as in progress. It does not wait for the file.
func TestSQLiteTxLimitsInProgress(t *testing.T) {
	t.Parallel()
	s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t))), &sqlstore.Options{LockWait: time.Hour})
	s.Engine = limitedEngine(t, s.Store, retrysafe.Limits{Live: 10})
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	end := sync.OnceFunc(func() { close(out) })
	t.Cleanup(end)
	go func() {
		_, err := retrysafe.DoTx(context.Background(), s.Engine, s.Store, teststores.OrderKey("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			close(in)
			<-out
			return shops.Insert(ctx, tx, "k")
		})
		done <- err
	}()
	waits.Soon(t, in, "the transaction")
	rec, err := s.Engine.Layer("tx").Lookup(t.Context(), teststores.OrderKey("k"))
	assert.NoError(t, err, "Lookup")
	assert.True(t, rec.State == retrysafe.StateInProgress && !rec.InDoubt(), "an open transaction is in progress: %v", rec.State)
	_, err = s.Order(t.Context(), "k")
	assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a repeat")
	end()
	assert.NoError(t, waits.Soon(t, done, "the transaction ends"), "the transaction")
	res, err := s.Order(t.Context(), "k")
	assert.True(t, err == nil && res.Replayed, "a repeat afterwards: %v", err)
	assert.Equal(t, s.Orders(t, "k"), 1, "orders")
}

// TestSQLiteLimitsGiveBackBehindALock: what could not be given back while another transaction had
// the file is given back when the file is free.
func TestSQLiteLimitsGiveBackBehindALock(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil)
	tries := make(chan error, 100)
	s.Engine = retrysafe.New(s.Store, &retrysafe.Options{
		Namespace: "app",
		Secret:    []byte("0123456789abcdef"), Sweep: -1, Policy: retrysafe.Policy{Retention: time.Hour, Limits: retrysafe.Limits{Live: 10}},
		Trace: &retrysafe.Trace{Store: func(_ context.Context, info retrysafe.StoreInfo) func(error) {
			return func(err error) {
				if info.Op == "charge" {
					tries <- err
				}
			}
		}},
	})
	t.Cleanup(func() { _ = s.Engine.Shutdown(context.Background()) })
	var release func()
	_, err := retrysafe.DoTx(t.Context(), s.Engine, undone{s.Store, func() { release = sqltest.HoldFile(t, path) }}, teststores.OrderKey("k"),
		func(context.Context, *sql.Tx) (int64, error) { return 0, nil })
	assert.ErrorIs(t, err, sqltest.ErrCut, "a transaction that is undone")
	assert.NoError(t, waits.Soon(t, tries, "it is counted"), "Charge")
	assert.ErrorIs(t, waits.Soon(t, tries, "it is given back"), retrysafe.ErrTooLate, "Charge while somebody else has the file")
	release()
	assert.NoError(t, waits.Soon(t, tries, "it is given back again"), "Charge when the file is free")
	assert.Equal(t, sqltest.Count(t, s.DB, "retrysafe_records_limits"), 0, "tenants of whom something counts")
}

// undone is a store whose transactions are rolled back; then is called before they end.
type undone struct {
	*sqlstore.Store
	then func()
}

func (u undone) RunTx(context.Context, storeapi.TxRequest, func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	u.then()
	return retrysafe.Record{}, sqltest.ErrCut
}
