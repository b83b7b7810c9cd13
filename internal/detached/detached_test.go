package detached_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/detached"
)

// TestContextAgain: a second finishing call, after one that was refused inside a transaction,
// has a time limit as well.
func TestContextAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c detached.Context
		for range 2 {
			c.Begin(t.Context(), time.Now().Add(time.Second))
			began := time.Now()
			select {
			case <-c.Done():
			case <-time.After(time.Hour):
			}
			assert.Equal(t, time.Since(began), time.Second, "time until the end")
			assert.ErrorIs(t, c.Err(), context.DeadlineExceeded, "error")
			c.Begin(t.Context(), time.Now().Add(time.Second))
			<-time.After(time.Millisecond)
			assert.NoError(t, c.Err(), "error of a call that has time left")
			_ = c.Done()
			c.Stop()
		}
	})
}

// TestContextAfterFunc: what waits for the context by [context.AfterFunc] or as its child ends
// with it.
func TestContextAfterFunc(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c detached.Context
		c.Begin(t.Context(), time.Now().Add(time.Second))
		defer c.Stop()
		ran := make(chan struct{})
		stop := context.AfterFunc(&c, func() { close(ran) })
		child, cancel := context.WithCancel(&c)
		defer cancel()
		never := context.AfterFunc(&c, func() { t.Error("it was stopped") })
		assert.True(t, never(), "stopping before the deadline")
		began := time.Now()
		<-ran
		<-child.Done()
		assert.Equal(t, time.Since(began), time.Second, "time until the end")
		assert.ErrorIs(t, child.Err(), context.DeadlineExceeded, "error of the child")
		assert.True(t, !stop(), "stopping after the deadline")
	})
}
