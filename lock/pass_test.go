package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
)

// TestLockIsPassed: a release gives the lock to the next caller of the process in the same call,
// with a greater fence. After fifteen passes it is free for a moment.
func TestLockIsPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(nil)
		first, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		var fences []retrysafe.Fence
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				assert.NoError(t, a.With(t.Context(), "x", func(ctx context.Context, held *lock.Lock) error {
					fences = append(fences, held.Fence())
					_, err := b.TryLock(ctx, "x")
					assert.ErrorIs(t, err, lock.ErrHeld, "another process")
					return nil
				}), "With")
			})
			synctest.Wait()
		}
		assert.NoError(t, first.Release(t.Context()), "Release")
		all.Wait()
		last := first.Fence()
		for _, fence := range fences {
			assert.True(t, fence > last, "fence %d after %d", fence, last)
			last = fence
		}
		assert.Equal(t, len(fences), 40, "holders")
		passed := strings.Repeat("P", 15) + "U"
		assert.Equal(t, f.endsSoFar(), passed+passed+"PPPPPPPPU", "how locks end")
		assert.Equal(t, f.tries.Load(), int32(3), "tries: the first one, and those after a release")
		_, err = b.TryLock(t.Context(), "x")
		assert.NoError(t, err, "another process, after the last one")
	})
}

// TestLostAnswersOfPasses: if the answer is lost, the lock is passed again, and if none comes, the
// next caller asks for itself and gets the same lock.
func TestLostAnswersOfPasses(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"one": 1, "all": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, a, b := twoLockers(nil)
				f.setFaults(func(f *faults) {
					f.passed = func() error {
						if lost--; lost >= 0 {
							return errCut
						}
						return nil
					}
				})
				first, err := a.Lock(t.Context(), "x")
				assert.NoError(t, err, "Lock")
				got := make(chan *lock.Lock, 1)
				go func() {
					held, err := a.Lock(t.Context(), "x")
					assert.NoError(t, err, "Lock of the next one")
					got <- held
				}()
				synctest.Wait()
				err = first.Release(t.Context())
				if name == "one" {
					assert.NoError(t, err, "Release")
				} else {
					assert.ErrorIs(t, err, errCut, "Release")
				}
				next := <-got
				assert.True(t, next.Fence() > first.Fence(), "fence %d after %d", next.Fence(), first.Fence())
				assert.Equal(t, next.Fence(), f.firstPassed, "the lock that the first pass granted")
				time.Sleep(4 * time.Minute) // eight leases
				assert.NoError(t, next.Err(), "the next one has heartbeats")
				_, err = b.TryLock(t.Context(), "x")
				assert.ErrorIs(t, err, lock.ErrHeld, "another process")
				assert.NoError(t, next.Release(t.Context()), "Release of the next one")
				_, err = b.TryLock(t.Context(), "x")
				assert.NoError(t, err, "another process")
			})
		})
	}
}

// TestCallerLeavesDuringAPass: a caller whose context ends while the lock is passed to it returns
// at once, and the lock is released.
func TestCallerLeavesDuringAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(nil)
		f.slowPass = make(chan struct{})
		first, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := a.Lock(ctx, "x")
			left <- err
		}()
		synctest.Wait()
		released := make(chan error, 1)
		go func() { released <- first.Release(t.Context()) }()
		synctest.Wait()
		leave()
		assert.ErrorIs(t, <-left, context.Canceled, "the caller that leaves")
		close(f.slowPass)
		assert.NoError(t, <-released, "Release")
		synctest.Wait()
		other, err := b.TryLock(t.Context(), "x")
		assert.NoError(t, err, "another process")
		assert.NoError(t, other.Release(t.Context()), "Release of the other process")
		_, err = a.TryLock(t.Context(), "x")
		assert.NoError(t, err, "this process")
	})
}

// TestLongHoldsAreNotPassedOn: a lock that is held for longer than a tenth of a second is passed
// once, and then free for a moment.
func TestLongHoldsAreNotPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				assert.NoError(t, a.With(t.Context(), "x", func(context.Context, *lock.Lock) error {
					time.Sleep(time.Second)
					return nil
				}), "With")
			})
		}
		all.Wait()
		assert.Equal(t, f.endsSoFar(), "PUPUPU", "how locks end")
	})
}

// TestShutdownDuringAPass: a caller to which the lock is passed while the locker shuts down gets
// ErrClosed, and leaves nothing on the server.
func TestShutdownDuringAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoLockers(nil)
		f.slowPass = make(chan struct{})
		first, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		left := make(chan error, 1)
		go func() {
			_, err := a.Lock(t.Context(), "x")
			left <- err
		}()
		synctest.Wait()
		go func() { _ = first.Release(t.Context()) }()
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- a.Shutdown(t.Context()) }()
		assert.ErrorIs(t, <-left, lock.ErrClosed, "the caller that waits")
		close(f.slowPass)
		assert.NoError(t, <-ended, "Shutdown")
		_, err = b.TryLock(t.Context(), "x")
		assert.NoError(t, err, "another process")
	})
}

// TestBackendThatCannotPass: the lock is released as without Pass.
func TestBackendThatCannotPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		f.cannotPass = true
		first, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		var all sync.WaitGroup
		n := 0
		for range 20 {
			all.Go(func() {
				assert.NoError(t, a.With(t.Context(), "x", func(context.Context, *lock.Lock) error { n++; return nil }), "With")
			})
		}
		synctest.Wait()
		assert.NoError(t, first.Release(t.Context()), "Release")
		all.Wait()
		assert.Equal(t, n, 20, "holders")
		assert.Equal(t, strings.Count(f.endsSoFar(), "-"), 19, "refused passes: all but the sixteenth")
		assert.Equal(t, strings.ReplaceAll(f.endsSoFar(), "-", ""), strings.Repeat("U", 21), "how locks end")
	})
}

// TestPassThatTakesALease: the answer to a pass comes when the lease of the next caller is over.
// The caller gets an error, and the name is free.
func TestPassThatTakesALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		f.slowPass = make(chan struct{})
		first, err := a.Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		ended := make(chan error, 1)
		go func() {
			_, err := a.Lock(t.Context(), "x", lock.WithLease(time.Second))
			ended <- err
		}()
		synctest.Wait()
		go func() { _ = first.Release(t.Context()) }()
		time.Sleep(2 * time.Second)
		close(f.slowPass)
		err = <-ended
		assert.True(t, err != nil, "Lock of the next one")
		assert.Contains(t, err.Error(), "took longer than the lease", "Lock of the next one")
		synctest.Wait()
		_, err = a.TryLock(t.Context(), "x")
		assert.NoError(t, err, "the next caller")
	})
}

// TestWaitEndsAsAPassDoes: the answers of all passes are lost, and the next caller's context ends
// at the moment at which the release gives up. The lock that was passed is released all the same.
func TestWaitEndsAsAPassDoes(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		synctest.Test(t, func(t *testing.T) {
			f, a, b := twoLockers(nil)
			f.setFaults(func(f *faults) { f.passed = func() error { return errCut } })
			first, err := a.Lock(t.Context(), "x")
			assert.NoError(t, err, "Lock")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				held, err := a.Lock(ctx, "x")
				if err == nil {
					assert.NoError(t, held.Release(t.Context()), "Release of the next one")
				}
			})
			synctest.Wait()
			assert.ErrorIs(t, first.Release(t.Context()), errCut, "Release")
			all.Wait()
			synctest.Wait()
			_, err = b.TryLock(t.Context(), "x")
			assert.NoError(t, err, "another process, round %d", n)
		})
	}
}

// TestErrorOfOneCallerIsNotAnothers: what a caller gets whose own context has ended during its try
// says nothing to others.
func TestErrorOfOneCallerIsNotAnothers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, _ := twoLockers(nil)
		f.slowTry = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := a.Lock(ctx, "x")
			assert.ErrorIs(t, err, context.Canceled, "the caller that leaves")
		})
		synctest.Wait()
		for range 2 {
			all.Go(func() {
				assert.NoError(t, a.With(t.Context(), "x", func(context.Context, *lock.Lock) error {
					time.Sleep(time.Second)
					return nil
				}), "With")
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		_, err := a.TryLock(t.Context(), "x")
		assert.ErrorIs(t, err, lock.ErrHeld, "a caller that does not wait")
		assert.True(t, !errors.Is(err, context.Canceled), "it is another caller's error: %v", err)
		close(f.slowTry)
		all.Wait()
	})
}
