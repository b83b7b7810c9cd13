package table

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestBatchIsInTimeWithoutThoseWhoLeft: the time limit of a call whose caller has left does not
// apply to the others of its batch.
func TestBatchIsInTimeWithoutThoseWhoLeft(t *testing.T) {
	t.Parallel()
	start := time.Now()
	ended, end := context.WithCancel(t.Context())
	end()
	change := func(ctx context.Context, limit time.Duration) *Change {
		return &Change{Call: &Call{Ctx: ctx, NotAfter: start.Add(limit)}}
	}
	left, later, sooner, gone := change(t.Context(), 1), change(t.Context(), 4), change(t.Context(), 3), change(ended, 2)
	free := &Change{Call: &Call{Ctx: t.Context()}}
	assert.True(t, left.LeaveQueue(), "a caller leaves before its call has begun")
	begun, notAfter := beginChanges([]*Change{left, later, sooner, free, gone})
	assert.Equal(t, len(begun), 3, "the changes that are made")
	assert.Equal(t, notAfter, sooner.NotAfter, "the limit of the batch")
	assert.ErrorIs(t, gone.Err, context.Canceled, "what the caller with an ended context gets")
}
