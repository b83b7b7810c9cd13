// Package memlock keeps locks in this process: for tests, and for programs of one process that want
// the fences and the bounds of package lock.
package memlock

import (
	"context"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
)

// Backend keeps locks. It is safe for concurrent use, and the zero value is ready. It remembers the
// fence of each name that was ever locked, in some 100 bytes.
type Backend struct {
	mu    sync.Mutex
	names map[string]*state
}

var _ lock.Backend = (*Backend)(nil)

// New returns a backend.
func New() *Backend { return new(Backend) }

type state struct {
	owner   retrysafe.Owner
	fence   retrysafe.Fence
	until   time.Time     // zero: released
	changed chan struct{} // closed with the next release; nil: nobody waits
}

// TryLock implements [lock.Backend].
func (b *Backend) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if err := ctx.Err(); err != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state(r.Name)
	now := time.Now()
	switch live := s.until.After(now); {
	case live && s.owner != r.Owner:
		return lock.Grant{}, lock.ErrHeld
	case !live || s.owner != r.Owner:
		s.owner, s.fence = r.Owner, max(s.fence+1, retrysafe.Fence(now.UnixMicro()))
	}
	s.until = later(s.until, now.Add(r.Lease))
	return lock.Grant{Fence: s.fence}, nil
}

// Wait implements [lock.Backend].
func (b *Backend) Wait(ctx context.Context, r lock.Request) error {
	b.mu.Lock()
	s := b.state(r.Name)
	left := time.Until(s.until)
	if left > 0 && s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	b.mu.Unlock()
	if left <= 0 {
		return nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-changed:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Extend implements [lock.Backend].
func (b *Backend) Extend(_ context.Context, r lock.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state(r.Name)
	if s.until.IsZero() || s.owner != r.Owner {
		return lock.ErrLost
	}
	// also behind its end, where nobody has taken it
	s.until = later(s.until, time.Now().Add(r.Lease))
	return nil
}

// Unlock implements [lock.Backend].
func (b *Backend) Unlock(_ context.Context, r lock.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state(r.Name)
	if s.owner != r.Owner {
		return lock.ErrLost
	}
	s.until = time.Time{}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return nil
}

// state is that of a name; the mutex is held.
func (b *Backend) state(name string) *state {
	s := b.names[name]
	if s == nil {
		if b.names == nil {
			b.names = make(map[string]*state)
		}
		s = new(state)
		b.names[name] = s
	}
	return s
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
