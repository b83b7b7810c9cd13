package retrysafe

import (
	"context"
	"sync"
	"time"
)

// lateContext has the values of another context, but its own deadline, and does not end with that
// context: the call that finishes an attempt must reach the store even if the caller has gone. Its
// timer is created only when Done is called, so a store that never waits costs none.
type lateContext struct {
	values   context.Context
	deadline time.Time

	mu    sync.Mutex
	done  chan struct{}
	timer *time.Timer
}

// begin prepares the context for one call. It has been used before if a finishing call was refused
// inside a transaction.
func (c *lateContext) begin(values context.Context, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values, c.deadline, c.done, c.timer = values, deadline, nil, nil
}

func (c *lateContext) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *lateContext) Value(key any) any           { return c.values.Value(key) }

func (c *lateContext) Err() error {
	if time.Now().Before(c.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

func (c *lateContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		done := make(chan struct{})
		c.done = done
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { close(done) })
	}
	return c.done
}

// AfterFunc calls f after the deadline, unless stop is called before. [context.AfterFunc] uses it;
// without it, that would start a goroutine for each call.
func (c *lateContext) AfterFunc(f func()) (stop func() bool) {
	return time.AfterFunc(time.Until(c.deadline), f).Stop
}

// stop frees the timer after the call.
func (c *lateContext) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}
