package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/lock"
)

// A waiter polls after 25 to 50 ms, and then ever more rarely, up to 125 to 250 ms.
const (
	soonest = 50 * time.Millisecond
	latest  = 250 * time.Millisecond
)

// calls wakes the waiters of this process by name when a lock is released.
type calls struct {
	mu    sync.Mutex
	names map[string]*call
}

type call struct {
	waiting int
	made    chan struct{}
}

// await returns a channel that is closed at the next release of the name. The caller calls done
// when it does not wait any more.
func (c *calls) await(name string) (made <-chan struct{}, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.names[name]
	if one == nil {
		if c.names == nil {
			c.names = make(map[string]*call)
		}
		one = &call{made: make(chan struct{})}
		c.names[name] = one
	}
	one.waiting++
	return one.made, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.waiting--; one.waiting == 0 && c.names[name] == one {
			delete(c.names, name)
		}
	}
}

func (c *calls) wake(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.names[name]; one != nil {
		close(one.made)
		delete(c.names, name)
	}
}

// Wait implements [lock.Backend]. A release through this backend wakes it at once. For other
// releases it polls.
func (t *Table) Wait(ctx context.Context, r lock.Request) error {
	for most := soonest; ; most = min(most*3/2, latest) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		made, done := t.calls.await(r.Name) // before the first check
		left, err := t.left(ctx, r)
		if err != nil || left <= 0 {
			done()
			return err
		}
		timer := time.NewTimer(min(left, most/2+rand.N(most/2)))
		select {
		case <-made:
			timer.Stop()
			done()
			return nil
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		done()
	}
}

// left returns how long the lock is still held.
func (t *Table) left(ctx context.Context, r lock.Request) (time.Duration, error) {
	var us int64
	err := patient(ctx, func() error { return t.db.QueryRowContext(ctx, t.queries.left, []byte(r.Name)).Scan(&us) })
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, explain("look at the lock", t.o.Table, err)
	}
	return time.Duration(us) * time.Microsecond, nil
}
