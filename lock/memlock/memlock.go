// Package memlock keeps locks in this process's memory. It is for tests, and for programs of one
// process that need the fences and limits of package lock.
package memlock

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Backend keeps locks in memory. It is safe for concurrent use, and its zero value is ready to use.
// It remembers the fence of each name that was ever locked, in some 100 bytes.
type Backend struct {
	mu    sync.Mutex
	names map[string]*lockState
}

var (
	_ lock.Backend = (*Backend)(nil)
	_ lock.Passer  = (*Backend)(nil)
	_ lock.Lister  = (*Backend)(nil)
)

// New returns a backend.
func New() *Backend { return new(Backend) }

type lockState struct {
	owner   storeapi.Owner
	fence   retrysafe.Fence
	until   time.Time     // zero if released
	changed chan struct{} // closed when the lock ends earlier; nil if there are no waiters
	waiting int           // calls of Wait
}

// TryLock implements [lock.Backend].
func (b *Backend) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if err := ctx.Err(); err != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stateOf(r.Name)
	now := time.Now()
	switch live := s.until.After(now); {
	case live && s.owner != r.Owner:
		return lock.Grant{}, lock.ErrHeld
	case !live || s.owner != r.Owner:
		s.grant(r, now)
	}
	s.until = laterTime(s.until, now.Add(r.Lease))
	return lock.Grant{Fence: s.fence}, nil
}

// Wait implements [lock.Backend].
func (b *Backend) Wait(ctx context.Context, r lock.Request) error {
	b.mu.Lock()
	s := b.stateOf(r.Name)
	left := time.Until(s.until)
	if left <= 0 || s.owner == r.Owner {
		b.mu.Unlock()
		return nil
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.waiting++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.waiting--
	}()
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
	s := b.stateOf(r.Name)
	if s.until.IsZero() || s.owner != r.Owner {
		return lock.ErrLost
	}
	// The holder can extend after the end of its lease, unless another owner has acquired the lock.
	s.until = laterTime(s.until, time.Now().Add(r.Lease))
	return nil
}

// Unlock implements [lock.Backend].
func (b *Backend) Unlock(_ context.Context, r lock.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stateOf(r.Name)
	if s.owner != r.Owner {
		return lock.ErrLost
	}
	s.until = time.Time{}
	s.wakeWaiters()
	return nil
}

// Pass implements [lock.Passer].
func (b *Backend) Pass(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
	if err := ctx.Err(); err != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stateOf(from.Name)
	now, before := time.Now(), s.until
	switch {
	case before.IsZero() || s.owner != from.Owner && s.owner != next.Owner:
		return lock.Grant{}, lock.ErrLost
	case s.owner == from.Owner || !before.After(now):
		s.grant(next, now)
	}
	s.until = laterTime(s.until, now.Add(next.Lease))
	if s.until.Before(before) { // earlier than those who wait know
		s.wakeWaiters()
	}
	return lock.Grant{Fence: s.fence}, nil
}

// List implements [lock.Lister]. Names are in the order of their bytes.
func (b *Backend) List(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
	if ctx.Err() != nil {
		return lock.Page{}, context.Cause(ctx)
	}
	var p lock.Page
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for name, s := range b.names {
		if left := s.until.Sub(now); left > 0 && name > r.After {
			p.Locks = append(p.Locks, lock.Held{Name: name, Fence: s.fence, Lease: left, Waiting: s.waiting})
		}
	}
	slices.SortFunc(p.Locks, func(a, b lock.Held) int { return cmp.Compare(a.Name, b.Name) })
	if size := r.Size(); len(p.Locks) > size {
		p.Locks, p.Next = p.Locks[:size:size], p.Locks[size-1].Name
	}
	return p, nil
}

// stateOf returns the state of a name. The caller holds the mutex.
func (b *Backend) stateOf(name string) *lockState {
	s := b.names[name]
	if s == nil {
		if b.names == nil {
			b.names = make(map[string]*lockState)
		}
		s = new(lockState)
		b.names[name] = s
	}
	return s
}

// grant makes an owner the holder, with a greater fence and no lease yet.
func (s *lockState) grant(r lock.Request, now time.Time) {
	s.owner, s.fence, s.until = r.Owner, max(s.fence+1, retrysafe.Fence(now.UnixMicro())), time.Time{}
}

func (s *lockState) wakeWaiters() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
