// Package detached has a context for a call that must be made even if its caller has gone.
package detached

import (
	"context"
	"sync"
	"time"
)

// Context has the values of another context, but its own deadline, and does not end with that
// context. Its timer is created only when Done is called, so a call that never waits costs none.
// Call Begin before its first use, and Stop after its last.
type Context struct {
	context.Context // for its values
	deadline        time.Time

	mu    sync.Mutex
	done  chan struct{}
	timer *time.Timer
}

// Begin prepares the context for one call, also if it was used for an earlier one.
func (c *Context) Begin(values context.Context, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Context, c.deadline, c.done, c.timer = values, deadline, nil, nil
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements [context.Context].
func (c *Context) Err() error {
	if time.Now().Before(c.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
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
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	return time.AfterFunc(time.Until(c.deadline), f).Stop
}

// Stop frees the timer after the call.
func (c *Context) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}
