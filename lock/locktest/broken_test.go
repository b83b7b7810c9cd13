package locktest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
	"github.com/retrysafe/retrysafe/lock/memlock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// broken is a backend with one fault: a function that is set replaces the method of a correct
// backend.
type broken struct {
	*memlock.Backend
	try    func(context.Context, lock.Request) (lock.Grant, error)
	wait   func(context.Context, lock.Request) error
	extend func(context.Context, lock.Request) error
	unlock func(context.Context, lock.Request) error
	pass   func(ctx context.Context, from, next lock.Request) (lock.Grant, error)
	list   func(context.Context, lock.ListRequest) (lock.Page, error)
}

func (b *broken) Pass(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
	if b.pass != nil {
		return b.pass(ctx, from, next)
	}
	return b.Backend.Pass(ctx, from, next)
}

func (b *broken) List(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
	if b.list != nil {
		return b.list(ctx, r)
	}
	return b.Backend.List(ctx, r)
}

func (b *broken) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if b.try != nil {
		return b.try(ctx, r)
	}
	return b.Backend.TryLock(ctx, r)
}

func (b *broken) Wait(ctx context.Context, r lock.Request) error {
	if b.wait != nil {
		return b.wait(ctx, r)
	}
	return b.Backend.Wait(ctx, r)
}

func (b *broken) Extend(ctx context.Context, r lock.Request) error {
	if b.extend != nil {
		return b.extend(ctx, r)
	}
	return b.Backend.Extend(ctx, r)
}

func (b *broken) Unlock(ctx context.Context, r lock.Request) error {
	if b.unlock != nil {
		return b.unlock(ctx, r)
	}
	return b.Backend.Unlock(ctx, r)
}

// holders remembers which owner was granted what, for faults that act for another owner.
type holders struct {
	mu   sync.Mutex
	last map[string]lock.Request
}

func (h *holders) set(r lock.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[r.Name] = r
}

func (h *holders) get(name string) (lock.Request, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.last[name]
	return r, ok
}

// recordHolders remembers each owner that is granted a lock.
func (b *broken) recordHolders() *holders {
	h := &holders{last: make(map[string]lock.Request)}
	b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
		g, err := b.Backend.TryLock(ctx, r)
		if err == nil {
			h.set(r)
		}
		return g, err
	}
	return h
}

func TestBrokenLocks(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, clause string
		breaks       func(*broken)
	}{
		{"always granted", "L1", func(b *broken) {
			b.try = func(context.Context, lock.Request) (lock.Grant, error) {
				return lock.Grant{Fence: retrysafe.Fence(time.Now().UnixNano())}, nil
			}
			b.unlock = func(context.Context, lock.Request) error { return nil }
		}},
		{"waits in TryLock", "L2", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				for {
					g, err := b.Backend.TryLock(ctx, r)
					if err == nil || ctx.Err() != nil {
						return g, err
					}
					_ = b.Backend.Wait(ctx, r)
				}
			}
		}},
		{"a new fence for the same owner", "L3", func(b *broken) {
			n := retrysafe.Fence(0)
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				g, err := b.Backend.TryLock(ctx, r)
				n++
				g.Fence += n
				return g, err
			}
		}},
		{"held for its own owner", "L3", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				if b.Backend.Extend(ctx, r) == nil {
					return lock.Grant{}, lock.ErrHeld
				}
				return b.Backend.TryLock(ctx, r)
			}
		}},
		{"no new lease for the same owner", "L3", func(b *broken) {
			h := holders{last: make(map[string]lock.Request)}
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				if first, ok := h.get(r.Name); ok && first.Owner == r.Owner {
					r = first
				}
				g, err := b.Backend.TryLock(ctx, r)
				if err == nil {
					h.set(r)
				}
				return g, err
			}
		}},
		{"fences begin anew", "L4", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				g, err := b.Backend.TryLock(ctx, r)
				g.Fence = 1
				return g, err
			}
		}},
		{"anybody unlocks", "L5", func(b *broken) {
			h := b.recordHolders()
			b.unlock = func(ctx context.Context, r lock.Request) error {
				if err := b.Backend.Unlock(ctx, r); err == nil {
					return nil
				}
				if other, ok := h.get(r.Name); ok {
					_ = b.Backend.Unlock(ctx, other)
				}
				return lock.ErrLost
			}
		}},
		{"says nothing of a loss", "L5", func(b *broken) {
			b.unlock = func(ctx context.Context, r lock.Request) error {
				_ = b.Backend.Unlock(ctx, r)
				return nil
			}
		}},
		{"extends for anybody", "L6", func(b *broken) {
			b.extend = func(ctx context.Context, r lock.Request) error {
				_ = b.Backend.Extend(ctx, r)
				return nil
			}
		}},
		{"never lets go", "L7", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				r.Lease = time.Hour
				return b.Backend.TryLock(ctx, r)
			}
		}},
		{"lets go too early", "L7", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				r.Lease /= 3
				return b.Backend.TryLock(ctx, r)
			}
		}},
		{"sleeps for the lease", "L8", func(b *broken) {
			b.wait = func(ctx context.Context, r lock.Request) error {
				select {
				case <-time.After(r.Lease):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}},
		{"waits without its context", "L9", func(b *broken) {
			b.wait = func(_ context.Context, r lock.Request) error {
				// It would wait for ever; the test cannot.
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				return b.Backend.Wait(ctx, r)
			}
		}},
		{"cuts names", "L10", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				r.Name = r.Name[:min(64, len(r.Name))]
				return b.Backend.TryLock(ctx, r)
			}
		}},
		{"folds names", "L10", func(b *broken) {
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				r.Name = strings.ToLower(r.Name)
				return b.Backend.TryLock(ctx, r)
			}
		}},
		{"lists the first page only", "L12", func(b *broken) {
			b.list = func(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
				p, err := b.Backend.List(ctx, r)
				p.Next = ""
				return p, err
			}
		}},
		{"lists every lock twice", "L12", func(b *broken) {
			b.list = func(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
				p, err := b.Backend.List(ctx, r)
				if r.After == "" {
					p.Next = "0" // the first page again
				}
				return p, err
			}
		}},
		{"lists with another fence", "L12", func(b *broken) {
			b.list = func(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
				p, err := b.Backend.List(ctx, r)
				for i := range p.Locks {
					p.Locks[i].Fence--
				}
				return p, err
			}
		}},
		{"lists what is free", "L12", func(b *broken) {
			freed := &holders{last: make(map[string]lock.Request)}
			b.unlock = func(ctx context.Context, r lock.Request) error {
				freed.set(r)
				return b.Backend.Unlock(ctx, r)
			}
			b.list = func(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
				p, err := b.Backend.List(ctx, r)
				if p.Next == "" {
					for name := range freed.last {
						p.Locks = append(p.Locks, lock.Held{Name: name, Fence: 1, Lease: time.Minute})
					}
				}
				return p, err
			}
		}},
		{"counts the holder as waiting", "L12", func(b *broken) {
			b.list = func(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
				p, err := b.Backend.List(ctx, r)
				for i := range p.Locks {
					p.Locks[i].Waiting++
				}
				return p, err
			}
		}},
		{"cannot list, and says that it does", "L12", func(b *broken) {
			b.list = func(context.Context, lock.ListRequest) (lock.Page, error) {
				return lock.Page{}, errors.ErrUnsupported
			}
		}},
		{"passes for anybody", "L13", func(b *broken) {
			h := b.recordHolders()
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				if other, ok := h.get(from.Name); ok {
					from = other
				}
				return b.Backend.Pass(ctx, from, next)
			}
		}},
		{"passes what is free", "L13", func(b *broken) {
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				_ = b.Backend.Unlock(ctx, from)
				return b.Backend.TryLock(ctx, next)
			}
		}},
		{"passes with the fence", "L13", func(b *broken) {
			var before retrysafe.Fence
			b.try = func(ctx context.Context, r lock.Request) (lock.Grant, error) {
				g, err := b.Backend.TryLock(ctx, r)
				if err == nil {
					before = g.Fence
				}
				return g, err
			}
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				g, err := b.Backend.Pass(ctx, from, next)
				g.Fence = before
				return g, err
			}
		}},
		{"releases in place of passing", "L13", func(b *broken) {
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				g, err := b.Backend.Pass(ctx, from, next)
				if err == nil {
					_ = b.Backend.Unlock(ctx, next)
				}
				return g, err
			}
		}},
		{"does not know a repeat of Pass", "L13", func(b *broken) {
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				if b.Backend.Extend(ctx, from) != nil {
					return lock.Grant{}, lock.ErrLost
				}
				return b.Backend.Pass(ctx, from, next)
			}
		}},
		{"passes again after a release", "L13", func(b *broken) {
			var last lock.Request
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				g, err := b.Backend.Pass(ctx, from, next)
				if err != nil && last.Owner == next.Owner {
					return b.Backend.TryLock(ctx, next)
				}
				last = next
				return g, err
			}
		}},
		{"a repeat of Pass renews no lease", "L13", func(b *broken) {
			var last lock.Request
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				if last.Owner == next.Owner {
					next.Lease = last.Lease
				}
				g, err := b.Backend.Pass(ctx, from, next)
				last = next
				return g, err
			}
		}},
		{"passes without its context", "L13", func(b *broken) {
			b.pass = func(_ context.Context, from, next lock.Request) (lock.Grant, error) {
				return b.Backend.Pass(context.Background(), from, next)
			}
		}},
		{"waits for its own lock", "L13", func(b *broken) {
			b.wait = func(ctx context.Context, r lock.Request) error {
				for b.Backend.Extend(ctx, r) == nil {
					select {
					case <-time.After(r.Lease):
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return b.Backend.Wait(ctx, r)
			}
		}},
		{"passes for ever", "L13", func(b *broken) {
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				next.Lease = time.Hour
				return b.Backend.Pass(ctx, from, next)
			}
		}},
		{"passes what another has taken over", "L13", func(b *broken) {
			h := b.recordHolders()
			passed := map[storeapi.Owner]bool{}
			b.pass = func(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
				g, err := b.Backend.Pass(ctx, from, next)
				if other, ok := h.get(from.Name); err != nil && ok && passed[from.Owner] && other.Owner != from.Owner {
					return b.Backend.Pass(ctx, other, next)
				}
				passed[next.Owner] = err == nil
				return g, err
			}
		}},
		{"looks at no context", "L11", func(b *broken) {
			b.try = func(_ context.Context, r lock.Request) (lock.Grant, error) {
				return b.Backend.TryLock(context.Background(), r)
			}
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			for _, twice := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					shared := &broken{Backend: memlock.New()}
					one.breaks(shared)
					c := locktest.Config{Lists: true, ListsTwice: twice, Open: func(testing.TB) lock.Backend { return shared }, Patience: time.Minute}
					err := locktest.Check(t, c, one.clause)
					if err == nil {
						t.Fatalf("%s finds nothing wrong", one.clause)
					}
					t.Log(err)
				})
			}
		})
	}
}
