package retrysafe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestFailureOfJoined: the refusal that is kept is the one that the marks stand for, and not one
// that an inner call has settled.
func TestFailureOfJoined(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{})
		inner := retrysafe.Key{Tenant: "ann", Operation: "inner", ID: "k-1"}
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			_, err := retrysafe.Do(ctx, e, inner, func(ctx context.Context) (string, error) {
				return "", retrysafe.Permanent("inner", errors.New("no coupon"))
			})
			return "", errors.Join(retrysafe.NothingDone(err), retrysafe.Permanent("outer", errors.New("declined")))
		})
		var f *retrysafe.Failure
		assert.True(t, errors.As(err, &f), "failure %v", err)
		assert.Equal(t, f.Code, "outer", "code")
	})
}
