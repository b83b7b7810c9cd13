package retrysafe_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// returning gives claims back by itself, as shardstore does if the second home of a key refuses.
// The answer of the first returned ones is lost.
type returning struct {
	storeapi.Store
	times   atomic.Int64
	inDoubt bool
}

func (s *returning) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	got, err := s.Store.Acquire(ctx, req)
	if err != nil || got.Status != storeapi.StatusAcquired || s.times.Add(-1) < 0 {
		return got, err
	}
	err = s.Release(ctx, storeapi.ReleaseRequest{Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, InDoubt: s.inDoubt, Cause: "unanswered"})
	if err == nil {
		err = storetest.ErrFault
	}
	return storeapi.Acquired{}, err
}

// TestClaimThatTheStoreGaveBack: nothing has run under such a claim, so the call claims the key
// again. It is not told that its lease is lost, nor that the outcome is in doubt.
func TestClaimThatTheStoreGaveBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p       retrysafe.Policy
		inDoubt bool
	}{
		"released":                  {p: retrysafe.Policy{}},
		"in doubt, under Reexecute": {p: again, inDoubt: true},
		"released, under Reexecute": {p: again},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &returning{Store: newStore(), inDoubt: c.inDoubt}
				s.times.Store(2)
				e := engineOn(t, s, c.p)
				runs := 0
				res, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { runs++; return "paid", nil })
				assert.NoError(t, err, "the call")
				assert.True(t, res.Value == "paid" && runs == 1, "answer %q of %d runs", res.Value, runs)
			})
		})
	}
	t.Run("always", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := &returning{Store: newStore()}
			s.times.Store(1000)
			e := engineOn(t, s, retrysafe.Policy{})
			_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { t.Error("it runs"); return "", nil })
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the call")
			_, retry := retrysafe.Retryable(err)
			assert.True(t, retry, "a retry is of use: %v", err)
		})
	})
}
