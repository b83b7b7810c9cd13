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
	firstPoll   = 50 * time.Millisecond
	slowestPoll = 250 * time.Millisecond
)

// releaseSignals wakes the waiters of this process by name when a lock is released.
type releaseSignals struct {
	mu    sync.Mutex
	names map[string]*releaseSignal
}

type releaseSignal struct {
	waiting  int
	released chan struct{}
}

// subscribe returns a channel that is closed at the next release of the name. The caller calls done
// when it does not wait any more.
func (c *releaseSignals) subscribe(name string) (made <-chan struct{}, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.names[name]
	if one == nil {
		if c.names == nil {
			c.names = make(map[string]*releaseSignal)
		}
		one = &releaseSignal{released: make(chan struct{})}
		c.names[name] = one
	}
	one.waiting++
	return one.released, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.waiting--; one.waiting == 0 && c.names[name] == one {
			delete(c.names, name)
		}
	}
}

func (c *releaseSignals) notify(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.names[name]; one != nil {
		close(one.released)
		delete(c.names, name)
	}
}

// Wait implements [lock.Backend]. A release through this backend wakes it at once. For other
// releases it polls.
func (t *Table) Wait(ctx context.Context, r lock.Request) error {
	for most := firstPoll; ; most = min(most*3/2, slowestPoll) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		made, done := t.releases.subscribe(r.Name) // before the first check
		left, err := t.timeLeft(ctx, r)
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

// timeLeft returns how long the lock is still held.
func (t *Table) timeLeft(ctx context.Context, r lock.Request) (time.Duration, error) {
	var us int64
	err := retryBlocked(ctx, func() error { return t.db.QueryRowContext(ctx, t.queries.timeLeft, []byte(r.Name)).Scan(&us) })
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, explainError("look at the lock", t.o.Table, err)
	}
	return time.Duration(us) * time.Microsecond, nil
}
