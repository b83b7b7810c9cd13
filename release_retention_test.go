package retrysafe_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestReleasedFor: a record with nothing to keep after a release is kept for minutes, any other for
// its retention.
func TestReleasedFor(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context) (string, error) { return "", retrysafe.NothingDone(errWork) }
	for name, c := range map[string]struct {
		policy retrysafe.Policy
		before func(t *testing.T, s storeapi.Store, e *retrysafe.Engine)
		call   func(e *retrysafe.Engine) error
		want   time.Duration
	}{
		"a first attempt": {want: 5 * time.Minute},
		"another one": {before: func(t *testing.T, _ storeapi.Store, e *retrysafe.Engine) {
			t.Helper()
			_, err := retrysafe.Do(ctx, e, charge, nothing)
			assert.ErrorIs(t, err, errWork, "the first")
		}, want: 5 * time.Minute},
		"an own time":              {policy: retrysafe.Policy{ReleasedFor: time.Minute}, want: time.Minute},
		"never beyond retention":   {policy: retrysafe.Policy{Retention: 2 * time.Minute}, want: 2 * time.Minute},
		"for the whole retention":  {policy: retrysafe.Policy{ReleasedFor: retrysafe.Forever}, want: 24 * time.Hour},
		"an attempt may have done": {policy: again, before: func(t *testing.T, s storeapi.Store, _ *retrysafe.Engine) { t.Helper(); crashed(t, s, again) }, want: 24 * time.Hour},
		"a step was done": {call: func(e *retrysafe.Engine) error {
			_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
				_, err := retrysafe.Step(ctx, "pay", func(context.Context) (string, error) { return "paid", nil })
				if err != nil {
					return "", err
				}
				return nothing(ctx)
			})
			return err
		}, want: 24 * time.Hour},
		"an input": {call: func(e *retrysafe.Engine) error {
			op := retrysafe.NewOperation(e, charge.Operation, func(ctx context.Context, _ string) (string, error) { return nothing(ctx) }, nil).Resumable()
			_, err := op.Do(ctx, charge.Tenant, charge.ID, "in")
			return err
		}, want: 24 * time.Hour},
		"tries are counted": {call: func(e *retrysafe.Engine) error {
			a, _, err := e.Begin(ctx, charge)
			if err != nil {
				return err
			}
			if err := a.Uncount(ctx, 1); err != nil {
				return err
			}
			_ = a.Release(ctx, errWork)
			return errWork
		}, want: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore()
				e := engineOn(t, s, c.policy)
				if c.before != nil {
					c.before(t, s, e)
					time.Sleep(time.Minute)
				}
				if c.call == nil {
					c.call = func(e *retrysafe.Engine) error {
						_, err := retrysafe.Do(ctx, e, charge, nothing)
						return err
					}
				}
				assert.ErrorIs(t, c.call(e), errWork, "the call")
				rec := lookup(t, e, charge)
				assert.Equal(t, rec.State, retrysafe.StateReleased, "state")
				assert.Equal(t, rec.Expires.Sub(rec.Now).Round(time.Second), c.want, "it is kept for")
			})
		})
	}
}

// TestReleasedMeetsLateClaims: a released record is kept as long as a copy of its claim may be in
// flight.
func TestReleasedMeetsLateClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), only("acquire", storetest.Delay, 1, 1))
		e := engineOn(t, f, retrysafe.Policy{Lease: 10 * time.Millisecond, ReleasedFor: time.Millisecond})
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.NothingDone(errWork) })
		assert.ErrorIs(t, err, errWork, "the call")
		time.Sleep(4 * time.Second)
		f.Deliver() // the first claim; its second try acquired the key and was released
		time.Sleep(time.Minute)
		ran := false
		_, err = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { ran = true; return "", nil })
		assert.True(t, ran && err == nil, "the key is free: %v", err)
	})
}
