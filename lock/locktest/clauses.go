package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
)

func isHeld(err error) bool { return errors.Is(err, lock.ErrHeld) }
func isLost(err error) bool { return errors.Is(err, lock.ErrLost) }

// expectHeld returns an error if another owner does not get ErrHeld.
func (e *env) expectHeld(b lock.Backend, when string) error {
	if _, err := b.TryLock(e.ctx, e.newRequest(longLease)); !isHeld(err) {
		return fmt.Errorf("%s another owner's TryLock got %v, not ErrHeld", when, err)
	}
	return nil
}

func oneHolderAtATime(e *env) error {
	var inside atomic.Int32
	var last retrysafe.Fence // protected only by the lock: the race detector watches it
	failed := make(chan error, 8)
	var all sync.WaitGroup
	lockers := []*lock.Locker{lock.New(e.a, &lock.Options{Lease: longLease}), lock.New(e.b, &lock.Options{Lease: longLease})}
	for i := range 8 {
		all.Go(func() {
			for range e.Rounds {
				err := lockers[i%2].With(e.ctx, e.name, func(_ context.Context, l *lock.Lock) error {
					if n := inside.Add(1); n != 1 {
						return fmt.Errorf("%d holders at one time", n)
					}
					defer inside.Add(-1)
					if l.Fence() <= last {
						return fmt.Errorf("a holder has fence %d, and one before it had %d", l.Fence(), last)
					}
					last = l.Fence()
					time.Sleep(rand.N(200 * time.Microsecond)) // time for two holders to overlap
					return nil
				})
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func otherCallerGetsErrHeld(e *env) error {
	if _, err := e.acquireFree(e.a, e.newRequest(longLease)); err != nil {
		return err
	}
	return errors.Join(e.expectHeld(e.a, "through the holder's connection"), e.expectHeld(e.b, "through another connection"))
}

func repeatedTryIsGranted(e *env) error {
	r := e.newRequest(longLease)
	first, err := e.acquireFree(e.a, r)
	if err != nil {
		return err
	}
	again, err := e.a.TryLock(e.ctx, r)
	if err != nil || again.Fence != first {
		return fmt.Errorf("a repeat by the holder got fence %d and %v; it was granted with %d before", again.Fence, err, first)
	}
	if err := e.a.Unlock(e.ctx, r); err != nil {
		return fmt.Errorf("one Unlock behind two grants: %w", err)
	}
	short := e.newRequest(e.Short)
	if _, err = e.acquireFree(e.b, short); err != nil || e.Crash != nil {
		return err
	}
	short.Lease = longLease
	if _, err = e.b.TryLock(e.ctx, short); err != nil {
		return fmt.Errorf("a repeat by the holder: %w", err)
	}
	time.Sleep(2 * e.Short)
	return e.expectHeld(e.a, "behind a lease that a repeat has made longer,")
}

func fencesGrow(e *env) error {
	var last retrysafe.Fence
	for n := range 6 {
		b, lease := e.a, longLease
		if n%2 == 1 {
			b = e.b
		}
		if n == 3 && e.Crash == nil {
			lease = e.Short // and never released
		}
		r := e.newRequest(lease)
		g, err := e.acquireWaiting(b, r)
		if err != nil {
			return err
		}
		if g.Fence <= last {
			return fmt.Errorf("grant %d has fence %d, the one before had %d", n+1, g.Fence, last)
		}
		last = g.Fence
		if n == 3 && e.Crash != nil {
			e.Crash(b)
			e.b = e.Open(e.t)
		} else if n != 3 {
			if err := b.Unlock(e.ctx, r); err != nil {
				return fmt.Errorf("Unlock: %w", err)
			}
		}
	}
	return nil
}

func onlyHolderUnlocks(e *env) error {
	stranger := e.newRequest(longLease)
	if err := e.b.Unlock(e.ctx, stranger); !isLost(err) {
		return fmt.Errorf("Unlock of a name that nobody has locked got %v, not ErrLost", err)
	}
	r := e.newRequest(longLease)
	if _, err := e.acquireFree(e.a, r); err != nil {
		return err
	}
	if err := e.b.Unlock(e.ctx, stranger); !isLost(err) {
		return fmt.Errorf("Unlock by an owner that has nothing got %v, not ErrLost", err)
	}
	if err := e.expectHeld(e.b, "after a stranger's Unlock"); err != nil {
		return err
	}
	if err := e.a.Unlock(e.ctx, r); err != nil {
		return fmt.Errorf("Unlock by the holder: %w", err)
	}
	if _, err := e.acquireFree(e.b, e.newRequest(longLease)); err != nil {
		return err
	}
	if err := e.a.Unlock(e.ctx, r); err != nil && !isLost(err) {
		return fmt.Errorf("the second Unlock of a holder: %w", err)
	}
	return e.expectHeld(e.a, "after the second Unlock of the holder before")
}

func onlyHolderExtends(e *env) error {
	stranger := e.newRequest(longLease)
	if err := e.b.Extend(e.ctx, stranger); !isLost(err) {
		return fmt.Errorf("Extend of a name that nobody has locked got %v, not ErrLost", err)
	}
	r, short, err := extendShortLease(e, stranger, e.Short)
	for ; errors.Is(err, errTooSlow); r, short, err = extendShortLease(e, stranger, 2*short) {
		continue
	}
	if err != nil {
		return err
	}
	if _, err := e.a.TryLock(e.ctx, r); err != nil {
		return fmt.Errorf("a repeat by the holder: %w", err)
	}
	time.Sleep(2 * short)
	if err := e.expectHeld(e.b, "behind a lease that was extended, then asked for shorter ones,"); err != nil && e.Crash == nil {
		return err
	}
	if err := e.a.Unlock(e.ctx, r); err != nil && e.Crash == nil {
		return fmt.Errorf("Unlock: %w", err)
	}
	if err := e.a.Extend(e.ctx, r); !isLost(err) {
		return fmt.Errorf("Extend behind Unlock got %v, not ErrLost", err)
	}
	if _, err := e.acquireWaiting(e.b, e.newRequest(longLease)); err != nil {
		return err
	}
	if err := e.a.Extend(e.ctx, r); !isLost(err) {
		return fmt.Errorf("Extend by the holder before the holder got %v, not ErrLost", err)
	}
	return e.expectHeld(e.a, "after the Extend of the holder before")
}

var errTooSlow = errors.New("the lease was over before it could be extended")

// extendShortLease acquires the lock with a short lease and extends it. It returns the lease that
// it used. errTooSlow means that the lease expired before the test could check it.
func extendShortLease(e *env, stranger lock.Request, short time.Duration) (lock.Request, time.Duration, error) {
	r := e.newRequest(short)
	began := time.Now()
	if _, err := e.acquireWaiting(e.a, r); err != nil { // a shorter lease may have to expire first
		return r, short, err
	}
	if err := e.b.Extend(e.ctx, stranger); !isLost(err) {
		return r, short, fmt.Errorf("Extend by an owner that has nothing got %v, not ErrLost", err)
	}
	for _, lease := range []time.Duration{longLease, short} {
		r.Lease = lease
		err := e.a.Extend(e.ctx, r)
		if isLost(err) && lease == longLease && time.Since(began) >= short && short < e.Patience {
			return r, short, errTooSlow
		}
		if err != nil {
			return r, short, fmt.Errorf("Extend by the holder: %w", err)
		}
	}
	return r, short, nil
}

func abandonedLockEnds(e *env) error {
	first := e.newRequest(e.Short)
	began := time.Now()
	if _, err := e.acquireFree(e.a, first); err != nil {
		return err
	}
	if e.Crash != nil {
		e.Crash(e.a)
	}
	next := e.newRequest(longLease)
	if _, err := e.acquireWaiting(e.b, next); err != nil {
		return fmt.Errorf("a lock that was left alone did not become free: %w", err)
	}
	if took := time.Since(began); e.Crash == nil && took < e.Short*9/10 {
		return fmt.Errorf("a lease of %v was over after %v", e.Short, took)
	}
	if e.Crash != nil {
		return nil
	}
	if err := e.a.Extend(e.ctx, first); !isLost(err) {
		return fmt.Errorf("Extend of a lease that another owner has taken over got %v, not ErrLost", err)
	}
	if err := e.a.Unlock(e.ctx, first); !isLost(err) {
		return fmt.Errorf("Unlock of a lease that another owner has taken over got %v, not ErrLost", err)
	}
	return e.expectHeld(e.a, "after the calls of the holder before")
}

func waiterIsWoken(e *env) error {
	for n := range 12 {
		r := e.newRequest(longLease)
		if _, err := e.acquireWaiting(e.a, r); err != nil {
			return err
		}
		next := e.newRequest(longLease)
		if _, err := e.b.TryLock(e.ctx, next); !isHeld(err) {
			return fmt.Errorf("TryLock of a lock that is held got %v, not ErrHeld", err)
		}
		unlocked := make(chan error, 1)
		delay := rand.N(20 * time.Millisecond)
		if n%4 == 0 { // before the wait
			unlocked <- e.a.Unlock(e.ctx, r)
		} else {
			go func() {
				time.Sleep(delay)
				unlocked <- e.a.Unlock(e.ctx, r)
			}()
		}
		if _, err := e.acquireWaiting(e.b, next); err != nil {
			return fmt.Errorf("round %d: a lock was released, and who waits for it was not woken: %w", n, err)
		}
		if err := errors.Join(<-unlocked, e.b.Unlock(e.ctx, next)); err != nil {
			return fmt.Errorf("Unlock: %w", err)
		}
	}
	return nil
}

func abandonedWaitEnds(e *env) error {
	r := e.newRequest(longLease)
	if _, err := e.acquireFree(e.a, r); err != nil {
		return err
	}
	waiter := e.newRequest(longLease)
	ctx, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	for ctx.Err() == nil { // it may return too early
		err := e.b.Wait(ctx, waiter)
		// A connection may notice the deadline before the context does.
		if err != nil && ctx.Err() == nil && time.Now().Before(deadline) {
			return fmt.Errorf("Wait: %w", err)
		}
	}
	if e.ctx.Err() != nil {
		return errors.New("Wait did not return when its context had ended")
	}
	if err := e.b.Unlock(e.ctx, waiter); err != nil && !isLost(err) {
		return fmt.Errorf("Unlock of an owner that has waited: %w", err)
	}
	if err := e.expectHeld(e.b, "after another's wait was given up"); err != nil {
		return err
	}
	if err := e.a.Unlock(e.ctx, r); err != nil {
		return fmt.Errorf("Unlock: %w", err)
	}
	_, err := e.acquireFree(e.a, e.newRequest(longLease))
	return err
}

func namesAreBytes(e *env) error {
	base := e.name
	stem := base + strings.Repeat("x", lock.MaxName-len(base)-1)
	for _, name := range []string{
		base, base + " ", base + "A", base + "a", base + "/", base + "/..", base + "%", base + "_", base + "\\", base + "'", base + "{a}", base + "{b}", base + "\n",
		base + "\u00e9", base + "e\u0301", base + "\xff", base + "\xfe", base + "ß", base + "ss", stem + "1", stem + "2",
	} {
		e.name = name
		if _, err := e.acquireFree(e.a, e.newRequest(longLease)); err != nil {
			return fmt.Errorf("the name %q: %w", name, err)
		}
		if err := e.expectHeld(e.b, fmt.Sprintf("the name %q:", name)); err != nil {
			return err
		}
	}
	return nil
}

func endedContextLocksNothing(e *env) error {
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.a.TryLock(ended, e.newRequest(longLease)); err == nil {
		return errors.New("TryLock with a context that has ended was granted")
	}
	r := e.newRequest(longLease)
	if _, err := e.acquireFree(e.b, r); err != nil {
		return err
	}
	began := time.Now()
	for time.Since(began) < e.Patience/2 {
		if err := e.a.Wait(ended, e.newRequest(longLease)); err != nil {
			return nil //nolint:nilerr // the clause wants this error
		}
	}
	return errors.New("Wait with a context that has ended goes on without an error")
}
