package retrysafe

import (
	"context"
	"sync"
	"time"
)

// lateContext keeps the values of a context, but ends at a time of its own and not when that
// context does: what ends an attempt must reach the store also when the caller has gone. Its timer
// is made only when somebody asks for Done, so that a store that never waits costs none.
type lateContext struct {
	values   context.Context
	deadline time.Time

	mu    sync.Mutex
	done  chan struct{}
	timer *time.Timer
}

// begin makes it that of a call. There was one before where an ending was refused inside a
// transaction.
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

// stop frees the timer once the call is over.
func (c *lateContext) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}
