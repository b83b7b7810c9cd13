package retrysafe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestKeyForAfterAReleaseThatMayHaveWorked: under Reexecute an attempt that failed may have worked.
// Its record is kept for the retention, so that the next attempt calls the next service with the
// key of the first.
func TestKeyForAfterAReleaseThatMayHaveWorked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// retention 24 h
		e := engineOn(t, newStore(), retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
		down := engineOn(t, newStore(), retrysafe.Policy{})
		var payments atomic.Int64
		lose := true
		work := func(ctx context.Context) (string, error) {
			a, _ := retrysafe.AttemptFrom(ctx)
			key := retrysafe.Key{Tenant: "us", Operation: "pay", ID: a.KeyFor("charge")}
			_, err := retrysafe.Do(context.Background(), down, key, func(context.Context) (string, error) { payments.Add(1); return "paid", nil })
			if lose {
				lose = false
				return "", errors.New("the connection was cut before the answer") // unmarked
			}
			return "ok", err
		}
		_, err := retrysafe.Do(ctx, e, charge, work)
		assert.True(t, err != nil, "first")
		rec := lookup(t, e, charge)
		assert.Equal(t, rec.Expires.Sub(rec.Now), 24*time.Hour, "how long the record is kept")
		time.Sleep(6 * time.Minute)
		_, err = retrysafe.Do(ctx, e, charge, work)
		assert.NoError(t, err, "second")
		assert.Equal(t, payments.Load(), int64(1), "payments at the other service")
	})
}

// TestPanicUnderReexecuteIsKept: the same for work that panicked.
func TestPanicUnderReexecuteIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
		func() {
			defer func() { _ = recover() }()
			_, _ = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { panic("x") })
		}()
		rec := lookup(t, e, charge)
		assert.Equal(t, rec.Expires.Sub(rec.Now), 24*time.Hour, "an attempt that may have worked is kept for the retention")
	})
}
