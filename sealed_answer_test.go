package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var sealedTenant = sealstore.Tenant{Namespace: "app", Name: "ada"}

// sealedEngine returns an engine with a policy.
func sealedEngine(t *testing.T, s storeapi.Store, p retrysafe.Policy) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Policy: p})
	t.Cleanup(func() { _ = e.Shutdown(context.WithoutCancel(t.Context())) })
	return e
}

// TestAnswerSealed: a duplicate of work whose answer cannot be opened learns that the work was
// done, and nothing runs: after the tenant was forgotten, and in a process without keys.
func TestAnswerSealed(t *testing.T) {
	t.Parallel()
	inner := memstore.New(nil)
	sealed := sealstore.New(inner, sealstore.NewRing("a"), nil)
	e, bare := sealedEngine(t, sealed, retrysafe.Policy{}), sealedEngine(t, inner, retrysafe.Policy{})
	runs := 0
	do := func(e *retrysafe.Engine, id string) (retrysafe.Result[string], error) {
		return retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ada", Operation: "charge", ID: id}, func(context.Context) (string, error) {
			runs++
			if id == "refused" {
				return "", retrysafe.Permanent("declined", errors.New("the card is lost"))
			}
			return "ch_1", nil
		})
	}
	for range 2 {
		res, err := do(e, "done")
		assert.True(t, err == nil && res.Value == "ch_1", "%v, %v", res, err)
		_, err = do(e, "refused")
		var f *retrysafe.Failure
		assert.True(t, errors.As(err, &f) && f.Message == "the card is lost", "%v", err)
	}
	lost := func(e *retrysafe.Engine, what string) {
		t.Helper()
		_, err := do(e, "done")
		assert.ErrorIs(t, err, retrysafe.ErrAnswerSealed, "%s", what)
		assert.ErrorIs(t, err, retrysafe.ErrAnswerNotKept, "%s", what)
		_, again := retrysafe.Retryable(err)
		assert.True(t, !again, "%s: a retry gets the same answer", what)
		_, err = do(e, "refused")
		assert.ErrorIs(t, err, retrysafe.ErrFailedBefore, "%s", what)
	}
	lost(bare, "without keys")
	assert.NoError(t, sealed.Forget(t.Context(), sealedTenant), "forget")
	lost(e, "forgotten")
	assert.Equal(t, runs, 2, "runs")
}

// TestStepsSealed: a call whose finished steps cannot be opened does not run them again.
func TestStepsSealed(t *testing.T) {
	t.Parallel()
	inner := memstore.New(nil)
	sealed := sealstore.New(inner, sealstore.NewRing("a"), nil)
	paid := 0
	for _, s := range []storeapi.Store{sealed, sealed, inner} {
		e := sealedEngine(t, s, retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: time.Hour, Retention: 24 * time.Hour})
		_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ada", Operation: "order", ID: "1"}, func(ctx context.Context) (string, error) {
			_, err := retrysafe.Step(ctx, "pay", func(context.Context) (string, error) { paid++; return "r-1", nil })
			if err == nil {
				err = errors.New("no stock")
			}
			return "", err
		})
		assert.True(t, err != nil, "each attempt fails")
		assert.NoError(t, sealed.Forget(t.Context(), sealedTenant), "forget")
	}
	assert.Equal(t, paid, 1, "payments")
}
