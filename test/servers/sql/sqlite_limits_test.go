package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestSQLiteSweepRemovesCounts: the row of a tenant is removed when nothing counts any more, by a
// sweep or when everything is given back.
func TestSQLiteSweepRemovesCounts(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s, db := teststores.OpenSQLite(t, sqltest.NewFile(t), &sqlstore.Options{Now: clock.Now})
	charge := func(tenant string, keys int64, span time.Duration) {
		t.Helper()
		_, err := s.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Tenant: tenant, Keys: keys, For: span})
		assert.NoError(t, err, "Charge")
	}
	for i := range 200 { // more than one batch
		charge(fmt.Sprint(i), 1, time.Minute)
	}
	charge("stays", 1, time.Hour)
	charge("forever", 1, retrysafe.Forever)
	charge("back", 1, time.Hour)
	charge("back", -1, time.Hour)
	assert.Equal(t, sqltest.Count(t, db, "retrysafe_records_limits"), 202, "tenants")
	for range 2 {
		n, err := s.Sweep(t.Context(), 10)
		assert.Equal(t, fmt.Sprint(n, err), "0 <nil>", "records that were swept")
		clock.Advance(2 * time.Minute)
	}
	_, err := s.Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, sqltest.Count(t, db, "retrysafe_records_limits"), 2, "tenants of whom something counts")
}

// TestSQLiteRefusedChargesDoNotWait: a caller over its limit gets an error while another
// transaction has the file, and does not lock it.
func TestSQLiteRefusedChargesDoNotWait(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	s, _ := teststores.OpenSQLite(t, path, nil)
	req := storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour, Limits: storeapi.Limits{Live: 1}}
	got, err := s.Charge(t.Context(), req)
	assert.True(t, err == nil && got.OK, "the first: %v", err)
	t.Cleanup(sqltest.HoldFile(t, path))
	got, err = s.Charge(t.Context(), req)
	assert.True(t, err == nil && !got.OK, "the second: %v", err)
	req.Tenant = "another"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Charge(ctx, req)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "one that would be counted")
}

func limitedEngine(t *testing.T, s storeapi.Store, l retrysafe.Limits) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{
		Namespace: "app",
		Secret:    []byte("0123456789abcdef"), Sweep: -1, Policy: retrysafe.Policy{Retention: time.Hour, Limits: l},
	})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// TestSQLiteLimitsAreShared: of many concurrent new keys through two handles on one file, exactly
// as many run as the limit allows.
func TestSQLiteLimitsAreShared(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	var engines []*retrysafe.Engine
	for range 2 {
		s, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{LockWait: time.Minute})
		engines = append(engines, limitedEngine(t, s, retrysafe.Limits{Live: 10}))
	}
	var ran, refused, failed atomic.Int64
	var callers sync.WaitGroup
	for i := range 60 {
		callers.Go(func() {
			_, err := retrysafe.Run(t.Context(), engines[i%2], teststores.OrderKey(fmt.Sprint(i)), func(context.Context) error { return nil })
			switch {
			case err == nil:
				ran.Add(1)
			case errors.Is(err, retrysafe.ErrTooManyKeys):
				refused.Add(1)
			default:
				failed.Add(1)
			}
		})
	}
	callers.Wait()
	assert.Equal(t, fmt.Sprint(ran.Load(), refused.Load(), failed.Load()), "10 50 0", "keys that ran, were refused, failed")
}

// TestSQLiteTxLimits: the limits also hold for transactions, and what is rolled back is given back.
func TestSQLiteTxLimits(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	s.Engine = limitedEngine(t, s.Store, retrysafe.Limits{Live: 2})
	for range 3 {
		_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("undone"), func(context.Context, *sql.Tx) (int64, error) { return 0, sqltest.ErrCut })
		assert.ErrorIs(t, err, sqltest.ErrCut, "a transaction that rolls back")
		waits.Eventually(t, "it is given back", func() bool { return sqltest.Count(t, s.DB, "retrysafe_records_limits") == 0 })
	}
	for _, customer := range []string{"ada", "bob"} {
		_, err := s.Order(t.Context(), customer)
		assert.NoError(t, err, "an order")
	}
	_, err := s.Order(t.Context(), "cyd")
	assert.ErrorIs(t, err, retrysafe.ErrTooManyKeys, "a third")
	s.WantNothing(t, "cyd", "a key over the limit")
	res, err := s.Order(t.Context(), "ada")
	assert.True(t, err == nil && res.Replayed, "a repeat over the limit: %v", err)

	s.Engine = limitedEngine(t, s.Store, retrysafe.Limits{Bytes: 1})
	_, err = s.Order(t.Context(), "dan")
	assert.NoError(t, err, "an order, while nothing is stored under a limit of bytes")
	assert.NoError(t, s.Engine.Shutdown(t.Context()), "what it takes is counted")
	s.Engine = limitedEngine(t, s.Store, retrysafe.Limits{Bytes: 1})
	_, err = s.Order(t.Context(), "eve")
	assert.ErrorIs(t, err, retrysafe.ErrTooManyKeys, "one more")
}
