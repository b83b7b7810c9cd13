package integration_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

func nothing(context.Context) error { return nil }

// TestSQLiteLimitsOnABusyFile: under limits, what is known is answered while another transaction
// has the file, or when nothing can be written. It is looked up, and nothing is counted.
func TestSQLiteLimitsOnABusyFile(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]func(t *testing.T, path string, db *sql.DB){
		"busy": func(t *testing.T, path string, _ *sql.DB) {
			t.Helper()
			t.Cleanup(holdFile(t, path))
		},
		"takes no writes": func(t *testing.T, _ string, db *sql.DB) {
			t.Helper()
			db.SetMaxOpenConns(1) // the setting is that of a connection
			execSQL(t, db, "PRAGMA query_only = 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			s, db := openSQLite(t, path, &sqlstore.Options{LockWait: time.Hour})
			e := limitedEngine(t, s, retrysafe.Limits{Live: 10, PerSecond: 100, Bytes: 1 << 20})
			_, err := retrysafe.Run(t.Context(), e, orderKey("a"), nothing)
			assert.NoError(t, err, "the first")
			block(t, path, db)
			for range 20 {
				replayed, err := retrysafe.Run(t.Context(), e, orderKey("a"), nothing)
				assert.True(t, err == nil && replayed, "a repeat: %v", err)
			}
		})
	}
}

// TestSQLiteTxLimitsInProgress: also under limits, a duplicate of a key whose transaction is open
// is rejected as in progress. It does not wait for the file.
func TestSQLiteTxLimitsInProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t, openDB(t, "sqlite", sqliteDSN(newFile(t))), &sqlstore.Options{LockWait: time.Hour})
	s.engine = limitedEngine(t, s.store, retrysafe.Limits{Live: 10})
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	end := sync.OnceFunc(func() { close(out) })
	t.Cleanup(end)
	go func() {
		_, err := retrysafe.DoTx(context.Background(), s.engine, s.store, orderKey("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			close(in)
			<-out
			return insert(ctx, tx, "k")
		})
		done <- err
	}()
	soon(t, in, "the transaction")
	rec, err := s.engine.Layer("tx").Lookup(t.Context(), orderKey("k"))
	assert.NoError(t, err, "Lookup")
	assert.True(t, rec.State == retrysafe.StateInProgress && !rec.InDoubt(), "an open transaction is in progress: %v", rec.State)
	_, err = s.order(t.Context(), "k")
	assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a repeat")
	end()
	assert.NoError(t, soon(t, done, "the transaction ends"), "the transaction")
	res, err := s.order(t.Context(), "k")
	assert.True(t, err == nil && res.Replayed, "a repeat afterwards: %v", err)
	assert.Equal(t, s.orders(t, "k"), 1, "orders")
}

// TestSQLiteLimitsGiveBackBehindALock: what could not be given back while another transaction had
// the file is given back when the file is free.
func TestSQLiteLimitsGiveBackBehindALock(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s := newShop(t, openDB(t, "sqlite", sqliteDSN(path)), nil)
	tries := make(chan error, 100)
	s.engine = retrysafe.New(s.store, &retrysafe.Options{
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
	t.Cleanup(func() { _ = s.engine.Shutdown(context.Background()) })
	var release func()
	_, err := retrysafe.DoTx(t.Context(), s.engine, undone{s.store, func() { release = holdFile(t, path) }}, orderKey("k"),
		func(context.Context, *sql.Tx) (int64, error) { return 0, nil })
	assert.ErrorIs(t, err, errCut, "a transaction that is undone")
	assert.NoError(t, soon(t, tries, "it is counted"), "Charge")
	assert.ErrorIs(t, soon(t, tries, "it is given back"), retrysafe.ErrTooLate, "Charge while somebody else has the file")
	release()
	assert.NoError(t, soon(t, tries, "it is given back again"), "Charge when the file is free")
	assert.Equal(t, count(t, s.db, "retrysafe_records_limits"), 0, "tenants of whom something counts")
}

// undone is a store whose transactions are rolled back; then is called before they end.
type undone struct {
	*sqlstore.Store
	then func()
}

func (u undone) RunTx(context.Context, retrysafe.TxRequest, func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	u.then()
	return retrysafe.Record{}, errCut
}
