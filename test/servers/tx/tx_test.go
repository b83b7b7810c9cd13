package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

func txBothOrNeither(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	s := open(t)
	res, err := s.Order(t.Context(), "ada")
	assert.NoError(t, err, "DoTx")
	assert.True(t, res.Stored && !res.Replayed && res.Attempt == 1 && res.Fence > 0, "the first result: %+v", res)
	s.WantOnce(t, "ada", "success")
	rec := s.Record(t, "ada")
	assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
	assert.Equal(t, rec.Fence, res.Fence, "fence")

	refused := errors.New("out of stock")
	work := func(then func(tx *sql.Tx) error) (retrysafe.Result[int64], error) {
		return retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("bob"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			id, err := shops.Insert(ctx, tx, "bob")
			return id, errors.Join(err, then(tx))
		})
	}
	_, err = work(func(*sql.Tx) error { return refused })
	assert.ErrorIs(t, err, refused, "DoTx whose work fails")
	s.WantNothing(t, "bob", "an error")
	func() {
		defer func() { assert.Equal(t, recover(), any("no paper"), "the panic goes on up") }()
		_, _ = work(func(*sql.Tx) error { panic("no paper") })
	}()
	s.WantNothing(t, "bob", "a panic")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = work(func(*sql.Tx) error { runtime.Goexit(); return nil })
	}()
	waits.Soon(t, gone, "a goroutine that ends in the work")
	s.WantNothing(t, "bob", "Goexit")
	s.WantOnce(t, "bob", "all these")
}

func txPermanent(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	s := open(t)
	runs := 0
	for range 2 {
		_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("eve"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			runs++
			_, err := shops.Insert(ctx, tx, "eve")
			return 0, errors.Join(err, retrysafe.Permanent("no-credit", errors.New("no credit")))
		})
		var failure *retrysafe.Failure
		assert.True(t, errors.As(err, &failure) && failure.Code == "no-credit", "a final refusal: %v", err)
	}
	assert.Equal(t, runs, 1, "runs")
	assert.Equal(t, s.Orders(t, "eve"), 0, "orders of a refused customer")
	assert.Equal(t, s.Record(t, "eve").State, retrysafe.StateFailed, "state")
}

// txDuplicates: of many concurrent calls one has the effect, and the others get its answer.
func txDuplicates(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	s := open(t)
	const callers, customers = 8, 4
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]map[int64]bool{}
	for i := range callers * customers {
		customer := fmt.Sprint("customer ", i%customers)
		all.Go(func() {
			res, err := s.Order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
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
	assert.Equal(t, sqltest.Count(t, s.DB, "orders"), customers, "orders")
	for customer, got := range answers {
		assert.Equal(t, len(got), 1, "different answers for %s", customer)
	}
}

func txDuplicateOfARunningOne(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	for _, conns := range []int{0, 1} { // with one connection the first call has it
		s := open(t)
		s.DB.SetMaxOpenConns(conns)
		finish := s.BlockedOrder(t, "ada", nil)
		for _, wait := range []time.Duration{-1, time.Millisecond} {
			_, err := s.Order(t.Context(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: wait}))
			assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a duplicate that waits %v", wait)
		}
		waiter := make(chan error, 1)
		go func() {
			_, err := s.Order(context.Background(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
			waiter <- err
		}()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Order(ctx, "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
		assert.ErrorIs(t, err, context.Canceled, "a duplicate whose context has ended")
		assert.NoError(t, finish(), "the first")
		assert.NoError(t, waits.Soon(t, waiter, "the waiter"), "a duplicate that waits")
		s.WantOnce(t, "ada", "a duplicate that waited")
	}
}

// txWaiterRunsAfterRollback: a rolled-back attempt does not count; a caller that waited for it runs
// next.
func txWaiterRunsAfterRollback(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	s := open(t)
	refused := errors.New("out of stock")
	finish := s.BlockedOrder(t, "ada", refused)
	waiter := make(chan retrysafe.Result[int64], 1)
	go func() {
		res, err := s.Order(context.Background(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		waiter <- res
	}()
	assert.ErrorIs(t, finish(), refused, "the first")
	assert.True(t, !waits.Soon(t, waiter, "the waiter").Replayed, "the waiter ran the work")
	s.WantOnce(t, "ada", "a rollback")
}
