package lock_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

// faulty is a backend with calls that a test can make fail.
type faulty struct {
	*memlock.Backend
	mu sync.Mutex
	faults
	tries atomic.Int32
	ends  []byte // how locks ended: U, or P if they were passed; - is a pass that was refused

	slowPass   chan struct{} // if not nil, Pass answers when it is closed
	slowTry    chan struct{} // if not nil, TryLock begins when it is closed
	cannotPass bool

	firstPassed retrysafe.Fence
}

// faults are called before a backend call, which is not made if they return an error. lost is
// called after TryLock, and passed after Pass; their error replaces the answer.
type faults struct {
	extend, unlock, lost, passed func() error
	grant                        func(*lock.Grant)
}

// setFaults changes the faults.
func (f *faulty) setFaults(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.faults)
}

// faultFor returns the error of one fault.
func (f *faulty) faultFor(which func(*faults) func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := which(&f.faults); fault != nil {
		return fault()
	}
	return nil
}

func (f *faulty) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	f.tries.Add(1)
	if f.slowTry != nil {
		select {
		case <-f.slowTry:
		case <-ctx.Done():
			return lock.Grant{}, ctx.Err()
		}
	}
	g, err := f.Backend.TryLock(ctx, r)
	if failed := f.faultFor(func(f *faults) func() error { return f.lost }); failed != nil {
		return lock.Grant{}, failed
	}
	f.setFaults(func(f *faults) {
		if f.grant != nil {
			f.grant(&g)
		}
	})
	return g, err
}

func (f *faulty) Extend(ctx context.Context, r lock.Request) error {
	if err := f.faultFor(func(f *faults) func() error { return f.extend }); err != nil {
		return err
	}
	return f.Backend.Extend(ctx, r)
}

func (f *faulty) Unlock(ctx context.Context, r lock.Request) error {
	if err := f.faultFor(func(f *faults) func() error { return f.unlock }); err != nil {
		return err
	}
	f.noteEnd('U')
	return f.Backend.Unlock(ctx, r)
}

func (f *faulty) Pass(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
	if f.cannotPass {
		f.noteEnd('-')
		return lock.Grant{}, errors.ErrUnsupported
	}
	f.noteEnd('P')
	g, err := f.Backend.Pass(ctx, from, next)
	f.setFaults(func(*faults) { f.firstPassed = cmp.Or(f.firstPassed, g.Fence) })
	if f.slowPass != nil {
		<-f.slowPass
	}
	if failed := f.faultFor(func(f *faults) func() error { return f.passed }); failed != nil {
		return lock.Grant{}, failed
	}
	return g, err
}

func (f *faulty) noteEnd(how byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends = append(f.ends, how)
}

// endsSoFar returns how locks have ended.
func (f *faulty) endsSoFar() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.ends)
}

var errCut = errors.New("connection cut")

// twoLockers returns two lockers on one backend, for two processes.
func twoLockers(o *lock.Options) (f *faulty, a, b *lock.Locker) {
	f = &faulty{Backend: memlock.New()}
	return f, lock.New(f, o), lock.New(f.Backend, o)
}

func TestHeldUntilReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoLockers(nil)
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		time.Sleep(4 * time.Minute) // eight leases
		_, err = b.TryLock(t.Context(), "x")
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
		assert.NoError(t, held.Err(), "Err")
		assert.NoError(t, held.Release(t.Context()), "Release")
		assert.NoError(t, held.Release(t.Context()), "Release")
		<-held.Done()
		assert.ErrorIs(t, held.Err(), lock.ErrReleased, "Err")
		assert.ErrorIs(t, context.Cause(held.Context()), lock.ErrReleased, "Cause")
		next, err := b.TryLock(t.Context(), "x")
		assert.NoError(t, err, "TryLock")
		if next.Fence() <= held.Fence() {
			t.Errorf("fences %d, then %d", held.Fence(), next.Fence())
		}
		assert.NoError(t, next.Release(t.Context()), "Release")
	})
}

func TestLossIsTold(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]error{"the server cannot be reached": errCut, "the server says so": lock.ErrLost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, a, b := twoLockers(&lock.Options{Lease: 30 * time.Second})
				f.setFaults(func(f *faults) { f.extend = func() error { return fails } })
				began := time.Now()
				held, err := a.Lock(t.Context(), "x")
				assert.NoError(t, err, "Lock")
				<-held.Done()
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("told after %v, a lease is 30 s", took)
				}
				assert.ErrorIs(t, held.Err(), lock.ErrLost, "Err")
				assert.ErrorIs(t, context.Cause(held.Context()), lock.ErrLost, "Cause")
				assert.ErrorIs(t, held.Extend(t.Context(), time.Second), fails, "Extend")
				assert.ErrorIs(t, held.Release(t.Context()), lock.ErrLost, "Release")
				next, err := b.Lock(t.Context(), "x")
				assert.NoError(t, err, "Lock")
				assert.NoError(t, next.Release(t.Context()), "Release")
				assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
			})
		})
	}
}

func TestBackendTellsOfALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		session := make(chan struct{})
		f.setFaults(func(f *faults) { f.grant = func(g *lock.Grant) { g.Done = session } })
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		began := time.Now()
		close(session)
		<-held.Done()
		assert.ErrorIs(t, held.Err(), lock.ErrLost, "Err")
		assert.Equal(t, time.Since(began), 0, "from the end of the session to the word of it")
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
	})
}

func TestHeartbeatsTryAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(&lock.Options{Lease: 30 * time.Second, MaxHold: time.Hour})
		n := 0
		f.setFaults(func(f *faults) {
			f.extend = func() error {
				if n++; n%5 != 0 {
					return errCut
				}
				return nil
			}
		})
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		time.Sleep(30 * time.Minute)
		assert.NoError(t, held.Err(), "Err")
		assert.NoError(t, held.Release(t.Context()), "Release")
	})
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoLockers(&lock.Options{Lease: 30 * time.Second, MaxHold: 45 * time.Second})
		began := time.Now()
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		<-held.Done()
		assert.Equal(t, time.Since(began), 45*time.Second, "held for")
		assert.ErrorIs(t, held.Err(), lock.ErrMaxHold, "Err")
		_, err = b.TryLock(t.Context(), "x") // the notified holder may still be writing
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
		next, err := b.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		// The last heartbeat was after 40 s.
		assert.Equal(t, time.Since(began), 70*time.Second, "free for others after")
		assert.NoError(t, next.Release(t.Context()), "Release")
		assert.ErrorIs(t, held.Release(t.Context()), lock.ErrMaxHold, "Release")
	})
}

func TestExtendBeyondMaxHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(&lock.Options{Lease: 30 * time.Second, MaxHold: 30 * time.Second})
		began := time.Now()
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		assert.NoError(t, held.Extend(t.Context(), 10*time.Minute), "Extend")
		// Extend needs none
		f.setFaults(func(f *faults) { f.extend = func() error { return errCut } })
		time.Sleep(10*time.Minute - time.Second)
		assert.NoError(t, held.Err(), "Err")
		_, err = b.TryLock(t.Context(), "x")
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
		<-held.Done()
		assert.Equal(t, time.Since(began), 10*time.Minute, "held for")
		assert.Contains(t, held.Extend(t.Context(), 0).Error(), "0s", "Extend")
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
	})
}

func TestSessionIsNotLongerThanItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(&lock.Options{Lease: 10 * time.Second})
		f.grant = func(g *lock.Grant) { g.Lease = 20 * time.Second }
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		began := time.Now()
		assert.NoError(t, held.Extend(t.Context(), 10*time.Minute), "Extend")
		f.extend = func() error { return errCut }
		<-held.Done()
		assert.Equal(t, time.Since(began), 20*time.Second, "told after")
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
	})
}

func TestWaitersGetItInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				assert.NoError(t, a.With(t.Context(), "x", func(context.Context, *lock.Lock) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return nil
				}), "With")
			})
			synctest.Wait()
		}
		assert.Equal(t, f.tries.Load(), 1, "calls of TryLock") // waiters do not call the backend
		assert.NoError(t, held.Release(t.Context()), "Release")
		all.Wait()
		assert.Equal(t, f.tries.Load(), 2, "calls of TryLock: the first one, and that after fifteen passes")
		for i, who := range order {
			assert.Equal(t, who, i, "in turn")
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoLockers(nil)
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		for _, l := range []*lock.Locker{a, b} { // one waits for its turn, one at the backend
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := l.Lock(ctx, "x")
			cancel()
			assert.ErrorIs(t, err, lock.ErrHeld, "Lock")
			assert.ErrorIs(t, err, context.DeadlineExceeded, "ErrorIs")
		}
		assert.NoError(t, held.Release(t.Context()), "Release")
		next, err := b.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		assert.NoError(t, next.Release(t.Context()), "Release")
	})
}

func TestReentry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoLockers(nil)
		outer, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		inner, err := a.Lock(outer.Context(), "x")
		assert.NoError(t, err, "Lock")
		assert.Equal(t, inner.Fence(), outer.Fence(), "Fence")
		tried, err := a.TryLock(inner.Context(), "x")
		assert.NoError(t, err, "TryLock")
		assert.NoError(t, tried.Release(t.Context()), "Release of one of three")
		assert.NoError(t, inner.Release(t.Context()), "Release of two of three")
		assert.ErrorIs(t, context.Cause(inner.Context()), lock.ErrReleased, "the inner context")
		_, err = b.TryLock(t.Context(), "x")
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
		assert.NoError(t, outer.Err(), "the outer lock")
		other, err := a.Lock(outer.Context(), "y") // another name is another lock
		assert.NoError(t, err, "Lock")
		assert.NoError(t, other.Release(t.Context()), "Release")
		late := context.WithoutCancel(outer.Context())
		assert.NoError(t, outer.Release(t.Context()), "Release of the last")
		anew, err := a.TryLock(late, "x") // nothing of the old lock is left
		assert.NoError(t, err, "TryLock")
		if anew.Fence() <= inner.Fence() {
			t.Error("a lock that was released is held again")
		}
		assert.NoError(t, anew.Release(t.Context()), "Release")
	})
}

func TestReentryOfALostLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		outer, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		inner, err := a.Lock(outer.Context(), "x")
		assert.NoError(t, err, "Lock")
		f.setFaults(func(f *faults) { f.extend = func() error { return lock.ErrLost } })
		<-outer.Done()
		assert.ErrorIs(t, context.Cause(inner.Context()), lock.ErrLost, "Cause")
		_, err = a.Lock(context.WithoutCancel(outer.Context()), "x")
		assert.ErrorIs(t, err, lock.ErrLost, "Lock")
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
	})
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(nil)
		n := 0
		f.setFaults(func(f *faults) {
			f.lost = func() error {
				if n++; n == 1 {
					return errCut
				}
				return nil
			}
		})
		held, err := a.Lock(t.Context(), "x") // the first try has it, the second gets the same
		assert.NoError(t, err, "Lock")
		m := 0
		f.setFaults(func(f *faults) {
			f.unlock = func() error {
				if m++; m == 1 {
					return errCut
				}
				return nil
			}
		})
		assert.NoError(t, held.Release(t.Context()), "Release")
		// now no answer arrives
		f.setFaults(func(f *faults) { f.lost = func() error { return errCut } })
		_, err = a.Lock(t.Context(), "x")
		assert.ErrorIs(t, err, errCut, "Lock")
		began := time.Now()
		next, err := b.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		if took := time.Since(began); took > time.Second {
			t.Errorf("what nobody wanted was given back after %v", took)
		}
		assert.NoError(t, next.Release(t.Context()), "Release")
	})
}

func TestUnconfirmedRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(nil)
		f.setFaults(func(f *faults) { f.unlock = func() error { return errCut } })
		assert.NoError(t, a.With(t.Context(), "x", func(context.Context, *lock.Lock) error { return nil }), "With")
		began := time.Now()
		next, err := b.Lock(t.Context(), "x") // when the lease ends
		assert.NoError(t, err, "Lock")
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("free after %v", took)
		}
		assert.NoError(t, next.Release(t.Context()), "Release")
		held, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		assert.ErrorIs(t, held.Release(t.Context()), errCut, "Release")
	})
}

func TestWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(nil)
		failed := errors.New("failed")
		ctx, cancel := context.WithCancel(t.Context())
		assert.ErrorIs(t, a.With(ctx, "x", func(context.Context, *lock.Lock) error {
			cancel() // it is still released
			return failed
		}), failed, "With")
		func() {
			defer func() { assert.Equal(t, recover(), any("no"), "the panic") }()
			_ = a.With(t.Context(), "x", func(context.Context, *lock.Lock) error { panic("no") })
		}()
		held, err := b.TryLock(t.Context(), "x")
		assert.NoError(t, err, "TryLock")
		assert.NoError(t, held.Release(t.Context()), "Release")
		f.setFaults(func(f *faults) { f.extend = func() error { return lock.ErrLost } })
		assert.ErrorIs(t, a.With(t.Context(), "x", func(ctx context.Context, _ *lock.Lock) error {
			<-ctx.Done()
			return nil
		}), lock.ErrLost, "With of a lock that was lost")
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
	})
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoLockers(nil)
		short, err := a.Lock(t.Context(), "short")
		assert.NoError(t, err, "Lock")
		long, err := a.Lock(t.Context(), "long")
		assert.NoError(t, err, "Lock")
		time.AfterFunc(time.Second, func() { _ = short.Release(t.Context()) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		assert.ErrorIs(t, a.Shutdown(ctx), context.DeadlineExceeded, "Shutdown")
		assert.ErrorIs(t, short.Err(), lock.ErrReleased, "Err")
		assert.ErrorIs(t, long.Err(), lock.ErrClosed, "Err")
		_, err = a.Lock(t.Context(), "new")
		assert.ErrorIs(t, err, lock.ErrClosed, "Lock")
		free, err := b.TryLock(t.Context(), "new")
		assert.NoError(t, err, "nothing is left of it")
		assert.NoError(t, free.Release(t.Context()), "Release")
		_, err = b.TryLock(t.Context(), "long")
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock") // until the lease ends
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	_, a, _ := twoLockers(nil)
	for _, name := range []string{"", "a\x00b", string(make([]byte, 201))} {
		_, err := a.Lock(t.Context(), name)
		assert.ErrorIs(t, err, lock.ErrName, "Lock")
	}
	_, err := a.Lock(t.Context(), "x", lock.WithLease(time.Millisecond))
	assert.Contains(t, err.Error(), "10 ms", "Lock")
	_, err = a.Lock(t.Context(), "x", lock.WithMaxHold(time.Second))
	assert.Contains(t, err.Error(), "shorter than Lease", "Lock")
	for _, o := range []*lock.Options{{Lease: -1}, {MaxHold: time.Nanosecond}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New takes %+v", *o)
				}
			}()
			lock.New(memlock.New(), o)
		}()
	}
}

// TestShutdownSendsWaitersHome: Shutdown ends the wait of callers that wait for their turn and of
// the one that waits at the backend, and leaves nothing of them.
func TestShutdownSendsWaitersHome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoLockers(nil)
		held, err := b.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := a.Lock(t.Context(), "x")
				assert.ErrorIs(t, err, lock.ErrClosed, "Lock of a waiter")
			})
		}
		synctest.Wait()
		assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
		all.Wait()
		assert.NoError(t, held.Release(t.Context()), "Release")
		next, err := b.TryLock(t.Context(), "x")
		assert.NoError(t, err, "TryLock behind it")
		assert.NoError(t, next.Release(t.Context()), "Release")
	})
}

// TestShutdownWaitsForNoLease: Shutdown does not wait for the lease of a lock that is gone, or that
// its holder has released after it was notified.
func TestShutdownWaitsForNoLease(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]error{"the server says so": lock.ErrLost, "bound": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, a, _ := twoLockers(&lock.Options{Lease: time.Hour, MaxHold: time.Hour + time.Minute})
				f.setFaults(func(f *faults) { f.extend = func() error { return fails } })
				held, err := a.Lock(t.Context(), "x")
				assert.NoError(t, err, "Lock")
				<-held.Done()
				_ = held.Release(t.Context())
				began := time.Now()
				assert.NoError(t, a.Shutdown(t.Context()), "Shutdown")
				assert.Equal(t, time.Since(began), 0, "waited for")
			})
		})
	}
}

// TestReleaseThatNobodyKnows: the first answer is lost, and the second says that another one has
// the lock. The lock may have been lost before.
func TestReleaseThatNobodyKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		n := 0
		f.setFaults(func(f *faults) {
			f.unlock = func() error {
				if n++; n == 1 {
					return errCut
				}
				return lock.ErrLost
			}
		})
		assert.ErrorIs(t, a.With(t.Context(), "x", func(context.Context, *lock.Lock) error { return nil }), lock.ErrLost, "With")
	})
}
