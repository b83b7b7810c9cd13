package rpcidem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestUnknownError: an error that this package does not know says nothing about what was done, so
// its refusal does not either.
func TestUnknownError(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("of a later version"), retrysafe.ErrUnconfirmed, retrysafe.ErrTxEnded} {
		r := refusalOf(err)
		assert.Equal(t, r.Reason, "OUTCOME_UNKNOWN", "reason of %v", err)
		assert.True(t, !strings.Contains(r.Message, "nothing was done") && r.RetryAfter == 0, "%v: %s, after %v", err, r.Message, r.RetryAfter)
	}
	for _, err := range []error{
		retrysafe.ErrUnavailable, fmt.Errorf("limits: %w", errors.ErrUnsupported), context.Canceled, context.DeadlineExceeded,
	} {
		assert.Equal(t, refusalOf(&retrysafe.Error{Err: err}).Reason, "STORE_UNAVAILABLE", "reason of %v", err)
	}
}
