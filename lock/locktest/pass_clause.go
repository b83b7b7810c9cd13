package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/lock"
)

func holderPasses(e *env) error {
	p, ok := e.a.(lock.Passer)
	if !ok {
		return nil
	}
	stranger, holder, next := e.newRequest(longLease), e.newRequest(longLease), e.newRequest(longLease)
	_, err := p.Pass(e.ctx, stranger, next)
	passes := !errors.Is(err, errors.ErrUnsupported)
	if passes && !isLost(err) {
		return fmt.Errorf("Pass of a name that nobody has locked got %v, not ErrLost", err)
	}
	first, err := e.acquireFree(e.a, holder)
	if err != nil {
		return fmt.Errorf("after a Pass that did nothing: %w", err)
	}
	if !passes {
		return nil
	}
	if _, err := p.Pass(e.ctx, stranger, next); !isLost(err) {
		return fmt.Errorf("Pass by an owner that has nothing got %v, not ErrLost", err)
	}
	if err := e.expectHeld(e.b, "after a stranger's Pass"); err != nil {
		return err
	}
	got, err := p.Pass(e.ctx, holder, next)
	if err != nil {
		return fmt.Errorf("Pass by the holder: %w", err)
	}
	if got.Fence <= first {
		return fmt.Errorf("the next owner has fence %d, the one before had %d", got.Fence, first)
	}
	if err := e.expectHeld(e.b, "after a Pass"); err != nil {
		return err
	}
	if err := e.a.Wait(e.ctx, next); err != nil {
		return fmt.Errorf("Wait by the next owner, which has the lock: %w", err)
	}
	again, err := p.Pass(e.ctx, holder, next)
	if err != nil || again.Fence != got.Fence {
		return fmt.Errorf("a repeat of Pass got fence %d and %v; it was granted with %d before", again.Fence, err, got.Fence)
	}
	if err := e.a.Extend(e.ctx, holder); !isLost(err) {
		return fmt.Errorf("Extend by the owner that passed the lock got %v, not ErrLost", err)
	}
	if err := e.a.Unlock(e.ctx, holder); err != nil && !isLost(err) {
		return fmt.Errorf("Unlock by the owner that passed the lock: %w", err)
	}
	if err := e.expectHeld(e.b, "after calls of the owner that passed the lock"); err != nil {
		return err
	}
	if err := e.b.Unlock(e.ctx, next); err != nil {
		return fmt.Errorf("Unlock by the next owner: %w", err)
	}
	for name, from := range map[string]lock.Request{"a repeat of Pass": holder, "Pass by the next owner": next} {
		if _, err := p.Pass(e.ctx, from, next); !isLost(err) {
			return fmt.Errorf("%s, after the next owner's Unlock, got %v, not ErrLost", name, err)
		}
	}
	return errors.Join(passedLeaseEnds(e, p), endedContextPassesNothing(e, p))
}

func endedContextPassesNothing(e *env, p lock.Passer) error {
	e.name += "/ended"
	holder := e.newRequest(longLease)
	if _, err := e.acquireFree(e.a, holder); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := p.Pass(ended, holder, e.newRequest(longLease)); err == nil {
		return errors.New("Pass with a context that has ended was granted")
	}
	if err := e.a.Extend(e.ctx, holder); err != nil {
		return fmt.Errorf("Extend by the holder, after a Pass with a context that has ended: %w", err)
	}
	return nil
}

// passedLeaseEnds checks that a lock is passed with the lease of the next owner, that a duplicate
// renews the lease, and that an owner whose lease has ended does not pass what another one has.
func passedLeaseEnds(e *env, p lock.Passer) error {
	holder, short, next := e.newRequest(longLease), e.newRequest(e.Short), e.newRequest(longLease)
	if _, err := e.acquireFree(e.a, holder); err != nil {
		return err
	}
	freed := make(chan error, 1)
	go func() { // it waits for the holder with the long lease first
		_, err := e.acquireWaiting(e.b, next)
		freed <- err
	}()
	time.Sleep(e.Short / 2)
	began := time.Now()
	if _, err := p.Pass(e.ctx, holder, short); err != nil {
		return fmt.Errorf("Pass by the holder: %w", err)
	}
	if err := <-freed; err != nil {
		return fmt.Errorf("a lock that was passed and left alone did not become free: %w", err)
	}
	if took := time.Since(began); took < e.Short*9/10 {
		return fmt.Errorf("a lease of %v was over after %v", e.Short, took)
	}
	if _, err := p.Pass(e.ctx, short, e.newRequest(longLease)); !isLost(err) {
		return fmt.Errorf("Pass of a lease that another owner has taken over got %v, not ErrLost", err)
	}
	if err := e.a.Extend(e.ctx, next); err != nil {
		return fmt.Errorf("Extend by the holder, after the Pass of another: %w", err)
	}
	longer := e.newRequest(e.Short)
	for range 2 {
		if _, err := p.Pass(e.ctx, next, longer); err != nil {
			return fmt.Errorf("Pass by the holder, and a repeat: %w", err)
		}
		longer.Lease = longLease
	}
	time.Sleep(2 * e.Short)
	return e.expectHeld(e.b, "behind a lease that a repeat of Pass has made longer,")
}
