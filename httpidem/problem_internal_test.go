package httpidem

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
// its answer does not either.
func TestUnknownError(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("of a later version"), retrysafe.ErrUnconfirmed, retrysafe.ErrTxEnded, retrysafe.ErrEnded} {
		p := problemOf(err, false)
		assert.Equal(t, p.Code, "outcome-unknown", "code of %v", err)
		assert.True(t, !strings.Contains(p.Detail, "Nothing was done"), "%v: %s", err, p.Detail)
	}
	for _, err := range []error{
		retrysafe.ErrUnavailable, fmt.Errorf("limits: %w", errors.ErrUnsupported), context.Canceled, context.DeadlineExceeded,
	} {
		p := problemOf(&retrysafe.Error{Err: err}, false)
		assert.Equal(t, p.Code, "store-unavailable", "code of %v", err)
	}
	assert.Equal(t, problemOf(retrysafe.ErrAnswerSealed, false).Code, "answer-not-kept", "code of an answer that cannot be opened")
}
