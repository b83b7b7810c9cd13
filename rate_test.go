package retrysafe_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestAllow: a burst, then the rate, separately for each tenant and thing. A refused request is not
// counted.
func TestAllow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	e := retrysafe.New(store, &retrysafe.Options{Sweep: -1})
	other := retrysafe.New(store, &retrysafe.Options{Sweep: -1}) // another process
	r := retrysafe.Rate{PerSecond: 0.5, Burst: 2}
	assert.NoError(t, e.Allow(t.Context(), "ann", "orders", r), "the first")
	assert.NoError(t, other.Allow(t.Context(), "ann", "orders", r), "the second, elsewhere")
	for range 5 {
		err := e.Allow(t.Context(), "ann", "orders", r)
		assert.ErrorIs(t, err, retrysafe.ErrTooManyRequests, "the third")
		after, ok := retrysafe.Retryable(err)
		assert.True(t, ok && after == 2*time.Second, "when to come again: %v", after)
		assert.True(t, !strings.Contains(err.Error(), "ann"), "the tenant is not in the error: %v", err)
	}
	for _, who := range [][2]string{{"bob", "orders"}, {"ann", "votes"}, {"", "orders"}, {"sann", "order"}, {strings.Repeat("x", 3000), "orders"}} {
		assert.NoError(t, e.Allow(t.Context(), who[0], who[1], r), "%.9s at %s", who[0], who[1])
	}
	now = now.Add(2 * time.Second)
	assert.NoError(t, e.Allow(t.Context(), "ann", "orders", r), "after two seconds")
	assert.ErrorIs(t, e.Allow(t.Context(), "ann", "orders", r), retrysafe.ErrTooManyRequests, "and no more")
	now = now.Add(time.Hour)
	for range 2 {
		assert.NoError(t, e.Allow(t.Context(), "ann", "orders", r), "an idle hour is worth one burst")
	}
	assert.ErrorIs(t, e.Allow(t.Context(), "ann", "orders", r), retrysafe.ErrTooManyRequests, "and no more")
}

// TestAllowMeetsNoLimits: rates of requests and limits of keys are counted separately.
func TestAllowMeetsNoLimits(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: retrysafe.Policy{Limits: retrysafe.Limits{PerSecond: 0.001, Burst: 1}}})
	for range 3 {
		assert.NoError(t, e.Allow(t.Context(), "ann", "pay", retrysafe.Rate{PerSecond: 0.001, Burst: 3}), "allow")
	}
	run := func(id string) error {
		_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ann", Operation: "pay", ID: id}, func(context.Context) (int, error) { return 1, nil })
		return err
	}
	assert.NoError(t, run("a"), "the first key")
	assert.ErrorIs(t, run("b"), retrysafe.ErrTooManyKeys, "the second key")
}

func TestAllowErrors(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	for _, r := range []retrysafe.Rate{{}, {PerSecond: -1}, {PerSecond: 1e6}, {PerSecond: 1e-5}, {PerSecond: math.NaN()}, {PerSecond: 1, Burst: -1}, {PerSecond: 1, Burst: 1e6}} {
		assert.True(t, r.Validate() != nil && e.Allow(t.Context(), "", "", r) != nil, "%v is refused", r)
	}
	type bare struct{ storeapi.Store } // no Limiter
	err := retrysafe.New(bare{memstore.New(nil)}, nil).Allow(t.Context(), "a", "b", retrysafe.Rate{PerSecond: 1})
	assert.ErrorIs(t, err, errors.ErrUnsupported, "a store that cannot count")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, e.Allow(ctx, "a", "b", retrysafe.Rate{PerSecond: 1}), context.Canceled, "a caller that has gone")
}
