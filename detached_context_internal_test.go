package retrysafe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestLateContextAgain: a second finishing call, after one that was refused inside a transaction,
// has a time limit as well.
func TestLateContextAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c lateContext
		for range 2 {
			c.begin(t.Context(), time.Now().Add(time.Second))
			began := time.Now()
			select {
			case <-c.Done():
			case <-time.After(time.Hour):
			}
			assert.Equal(t, time.Since(began), time.Second, "time until the end")
			assert.ErrorIs(t, c.Err(), context.DeadlineExceeded, "error")
			c.begin(t.Context(), time.Now().Add(time.Second))
			<-time.After(time.Millisecond)
			assert.NoError(t, c.Err(), "error of a call that has time left")
			_ = c.Done()
			c.stop()
		}
	})
}
